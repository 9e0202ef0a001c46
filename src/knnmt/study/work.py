"""The working directory of a study: kept results, stores and exported models."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knnmt.datastore import storage_errors
from knnmt.datastore.files import check_name, write_json
from knnmt.datastore.lock import DirectoryLock
from knnmt.study.machine import processor, versions
from knnmt.study.step import Result, Step

RESULT = "result.json"


class Work:
    """Keeps the result of each step in a directory `KIND/KEY`; its result.json is written last.

    Several studies may use one directory, also at the same time: what one has computed, the others use.
    """

    def __init__(self, path: Path) -> None:
        check_name(path)
        self.path = path
        self._read: dict[str, Result] = {}

    def directory(self, step: Step) -> Path:
        """The step's own directory; it exists when a step runs."""
        return self.path / step.kind / step.key

    def find(self, step: Step) -> Result | None:
        """The kept result; None if there is none."""
        if step.key not in self._read:
            kept = _read(self.directory(step) / RESULT)
            if kept is None:
                return None
            self._read[step.key] = kept
        return self._read[step.key]

    @contextmanager
    def locked(self, step: Step) -> Iterator[None]:
        """Make the step's directory; no other run works on the step meanwhile."""
        with storage_errors(self.path):
            lock = DirectoryLock(self.directory(step), wait=True)
        try:
            yield
        finally:
            lock.release_and_remove()

    def keep(self, step: Step, result: Result, cpu_seconds: float) -> Result:
        """Write a result, with what a reader has to know about it."""
        kept = result | {
            "step": step.title,
            "units": step.estimate().units,
            "step_seconds": cpu_seconds,
            "processor": processor(),
            "versions": versions(),
            "finished": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        with storage_errors(self.path):
            write_json(self.directory(step) / RESULT, kept)
        self._read[step.key] = kept
        return kept

    def rates(self, kind: str) -> float | None:
        """CPU-seconds per unit of work over all kept results of a kind; None before the first."""
        found = [_read(path) for path in (self.path / kind).glob(f"*/{RESULT}")]
        kept = [each for each in found if each is not None]
        units = sum(each["units"] for each in kept)
        return sum(each["step_seconds"] for each in kept) / units if units else None


def _read(path: Path) -> Result | None:
    """A kept result; None if there is none, or a damaged one, which has to be computed again."""
    try:
        kept: Result = json.loads(path.read_text(encoding="utf-8"))
        return kept if all(isinstance(kept[name], int | float) for name in ("units", "step_seconds")) else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
