"""The output of commands: results on standard output, everything else on standard error."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

# without a terminal, a table is not cut to 80 columns
out = Console(width=None if Console().is_terminal else 140, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def facts(rows: list[tuple[str, str]], title: str | None = None) -> None:
    """Print a table of two columns without lines."""
    table = Table(box=None, show_header=False, title=title, title_justify="left", padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(value))  # a path may contain brackets
    out.print(table)


def note(text: str) -> None:
    """Print a line for users on standard error."""
    err.print(text, markup=False, soft_wrap=True)


@contextmanager
def show_log() -> Iterator[None]:
    """Show what the library logs inside the block, as lines for users."""
    logger, handler = logging.getLogger("knnmt"), _Notes(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}")


def in_a_line(options: dict[str, Any]) -> str:
    """Options of a combiner in one line, without empty ones."""
    shown = {key: value for key, value in options.items() if value != []}
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in shown.items()
    )


def settings_in_a_line(combiner: dict[str, Any]) -> str:
    """Options of a combiner as `info` describes it, in one line."""
    return in_a_line({key: value for key, value in combiner.items() if key not in ("name", "method", "record")})


def size(count: float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
