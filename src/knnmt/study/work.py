"""The working directory of a study: kept results, stores and exported models."""

import json
import time
from pathlib import Path
from typing import Any

from knnmt import __version__
from knnmt.datastore import storage_errors
from knnmt.datastore.files import check_name, write_json
from knnmt.study.machine import processor
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
            try:
                kept = json.loads((self.directory(step) / RESULT).read_text(encoding="utf-8"))
            except (OSError, ValueError):  # a damaged one is computed again
                return None
            self._read[step.key] = kept
        return self._read[step.key]

    def keep(self, step: Step, result: Result, cpu_seconds: float) -> Result:
        """Write a result, with what a reader has to know about it."""
        kept = result | {
            "step": step.title,
            "units": step.estimate().units,
            "step_seconds": cpu_seconds,
            "processor": processor(),
            "knnmt": __version__,
            "finished": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        with storage_errors(self.path):
            self.directory(step).mkdir(parents=True, exist_ok=True)
            write_json(self.directory(step) / RESULT, kept)
        self._read[step.key] = kept
        return kept

    def rates(self, kind: str) -> float | None:
        """CPU-seconds per unit of work over all kept results of a kind; None before the first."""
        seconds = units = 0.0
        for path in (self.path / kind).glob(f"*/{RESULT}"):
            try:
                kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                seconds, units = seconds + kept["step_seconds"], units + kept["units"]
            except (OSError, ValueError, KeyError):
                continue
        return seconds / units if units else None
