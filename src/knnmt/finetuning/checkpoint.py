"""The state of an unfinished fine-tuning on disk, so that it continues after a kill."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from knnmt.errors import FinetuneError
from knnmt.finetuning.report import Validation

_STATE = "state.json"
_LOCK = "lock"
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Progress:
    """Everything about a run except tensors.

    Random numbers need no state: those of an update follow from the seed and its number.

    Attributes:
        run: identifies model, sentences and recipe
        updates, tokens: done so far
        epoch, position: the place of the next batch
        cpu_seconds: used so far
        validation_seconds: CPU time of the last validation
        history: all validations
    """

    run: str
    updates: int = 0
    tokens: int = 0
    epoch: int = 0
    position: int = 0
    cpu_seconds: float = 0.0
    validation_seconds: float = 0.0
    history: list[Validation] = field(default_factory=list)


class Checkpoint:
    """A directory with weights, moments of the optimizer, the best weights and counters.

    Each save writes files with new names; `state.json`, replaced last, says which files are valid. As a context
    manager, it keeps other processes out, and removes the directory in the end if there is nothing to continue.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, str] = {}  # the names of `weights`, `moments` and `best`

    def __enter__(self) -> Self:
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise FinetuneError(f"Another process uses {self.path}; wait until it has finished.") from None
        return self

    def __exit__(self, *_: object) -> None:
        if not (self.path / _STATE).exists():
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def load(self, run: str) -> Progress | None:
        """The progress of `run`; None if nothing was saved."""
        state = self.path / _STATE
        with disk_errors(self.path):
            if not state.is_file():
                return None
            values = json.loads(state.read_text("utf-8"))
        progress = values["progress"]
        if progress["run"] != run:
            raise FinetuneError(
                f"{self.path} has an unfinished fine-tuning of another model, corpus or recipe; "
                "remove it, or choose another output directory."
            )
        self._files = values["files"]
        return Progress(**progress | {"history": [Validation(**each) for each in progress["history"]]})

    def save(
        self, progress: Progress, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, improved: bool
    ) -> None:
        """Save the state after a validation; `improved` if its weights are the best so far."""
        weights, moments = (f"{part}-{progress.updates}.safetensors" for part in ("weights", "moments"))
        files = {"weights": weights, "moments": moments, "best": weights if improved else self._files["best"]}
        with disk_errors(self.path):
            for name, tensors in ((weights, dict(trained)), (moments, _moments_of(trained, optimizer))):
                save_file({key: each.detach().contiguous() for key, each in tensors.items()}, self.path / name)
                sync(self.path / name)
            write_json(self.path / _STATE, {"progress": asdict(progress), "files": files})
            self._files = files
            for file in self.path.iterdir():
                if file.is_file() and file.name not in {_STATE, _LOCK, *files.values()}:
                    file.unlink()

    def restore(self, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Load weights and moments as they were saved."""
        self._load_weights("weights", trained)
        with disk_errors(self.path):
            moments = load_file(self.path / self._files["moments"])
        for name, parameter in trained.items():
            if f"step.{name}" in moments:
                # Adam keeps its step counts in float32 and, if it is fused, on the device
                optimizer.state[parameter] = {part: moments[f"{part}.{name}"].to(parameter.device) for part in _MOMENTS}

    def load_best(self, trained: dict[str, nn.Parameter]) -> int:
        """Load the weights of the best dev loss. Returns the size of their file in bytes."""
        self._load_weights("best", trained)
        with disk_errors(self.path):
            return (self.path / self._files["best"]).stat().st_size

    def finish(self) -> None:
        """There is nothing left to continue."""
        with disk_errors(self.path):
            (self.path / _STATE).unlink(missing_ok=True)

    def _load_weights(self, which: str, trained: dict[str, nn.Parameter]) -> None:
        with disk_errors(self.path):
            tensors = load_file(self.path / self._files[which])
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(tensors[name])


def _moments_of(trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{part}.{name}": optimizer.state[parameter][part]
        for name, parameter in trained.items()
        if parameter in optimizer.state  # what no loss depends on has none
        for part in _MOMENTS
    }


def write_json(path: Path, value: Any) -> None:
    """Replace `path` atomically."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
    sync(new)
    os.replace(new, path)


def sync(path: Path) -> None:
    """`fsync` a file or a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Report a full disk, a missing permission or a damaged file as `FinetuneError`."""
    try:
        yield
    except Exception as error:
        # tokenizers, written in Rust like safetensors, raises plain exceptions: "No space left … (os error 28)"
        if not isinstance(error, OSError | SafetensorError) and "(os error" not in str(error):
            raise
        where = getattr(error, "filename", None) or path
        reason = getattr(error, "strerror", None) or error
        raise FinetuneError(
            f"Fine-tuning cannot use {where} ({reason}); fix this and run the same command again."
        ) from error
