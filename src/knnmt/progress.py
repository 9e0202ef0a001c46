"""Progress of long work, shown only inside `show_progress`.

Library code reports to the meter of `progress`. The `knnmt` command runs inside `show_progress`: a terminal shows a bar
with rate and time left; without a terminal a line is printed every half minute. Elsewhere nothing is shown.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_shown: ContextVar[bool] = ContextVar("progress is shown", default=False)

QUIET_INTERVAL = 30.0  # seconds between lines if there is no terminal


class Meter:
    """Receives progress; this base class shows nothing."""

    def __init__(self) -> None:
        self.done = 0.0
        self.units = 0.0

    def advance(self, steps: float = 1, units: float = 0) -> None:
        """`steps` move the bar towards its total; the rate counts `units`, for example tokens."""
        self.done += steps
        self.units += units

    def skip(self, steps: float) -> None:
        """Count steps that were done in an earlier run; they do not affect the time left."""
        self.done += steps

    def status(self, text: str) -> None:
        """Show a few words about the state of the work next to the bar."""


def _shown_rate(rate: float, unit: str) -> str:
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}".removesuffix(".0")
    return f"{shown} {unit}/s"


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        rate = task.fields["units"] / elapsed if elapsed > 0 else 0.0
        return Text(_shown_rate(rate, self.unit), style="cyan")


class _Bar(Meter):
    def __init__(self, progress: Progress, title: str, total: float | None) -> None:
        super().__init__()
        self.progress = progress
        self.task = progress.add_task(title, total=total, units=0.0, status="")

    def advance(self, steps: float = 1, units: float = 0) -> None:
        super().advance(steps, units)
        self.progress.update(self.task, advance=steps, units=self.units)

    def skip(self, steps: float) -> None:
        super().skip(steps)
        self.progress.reset(self.task, completed=int(self.done))

    def status(self, text: str) -> None:
        self.progress.update(self.task, status=text)


class _Lines(Meter):
    def __init__(self, title: str, total: float | None, unit: str) -> None:
        super().__init__()
        self.title, self.total, self.unit = title, total, unit
        self.started = self.last = time.monotonic()
        self.skipped = 0.0
        self.words = ""

    def advance(self, steps: float = 1, units: float = 0) -> None:
        super().advance(steps, units)
        if time.monotonic() - self.last >= QUIET_INTERVAL:
            self.last = time.monotonic()
            self.line()

    def skip(self, steps: float) -> None:
        super().skip(steps)
        self.skipped += steps

    def status(self, text: str) -> None:
        self.words = f" ({text})"

    def line(self) -> None:
        elapsed = max(time.monotonic() - self.started, 1e-9)
        of = f" of {self.total:,.0f}" if self.total is not None else ""
        left = ""
        if self.total and self.done > self.skipped:
            left = f", {max(self.total - self.done, 0) * elapsed / (self.done - self.skipped):,.0f} s left"
        rate = _shown_rate(self.units / elapsed, self.unit)
        print(f"{self.title}: {self.done:,.0f}{of}, {rate}{left}{self.words}", file=sys.stderr)


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress of all work inside the block, on standard error.

    Example:
        with show_progress():
            knnmt.build("memory", ["train.de", "train.en"], model="Helsinki-NLP/opus-mt-de-en")
    """
    before = _shown.set(True)
    try:
        yield
    finally:
        _shown.reset(before)


def progress_is_shown() -> bool:
    """Whether the caller is inside a `show_progress` block."""
    return _shown.get()


@contextmanager
def progress(title: str, total: float | None = None, unit: str = "items") -> Iterator[Meter]:
    """Report the progress of a block of work.

    Args:
        title: what the work is
        total: the number of steps; None if it is not known
        unit: what the rate counts

    Example:
        with progress("Building", total=sentences, unit="tokens") as meter:
            for batch in batches:
                meter.advance(len(batch), units=batch.tokens)
    """
    if not progress_is_shown():
        yield Meter()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(title, total, unit)
        return
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}", style="dim"),
    ]
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar, title, total)
