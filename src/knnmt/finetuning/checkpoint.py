"""The state of an unfinished fine-tuning on disk, so that it continues after a kill."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from knnmt.errors import FinetuneError
from knnmt.finetuning.report import Validation

_STATE = "state.json"
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Progress:
    """Everything about a run except tensors.

    Random numbers need no state: those of an update follow from the seed and its number.

    Attributes:
        run: identifies model, sentences and recipe
        updates, tokens: done so far
        epoch, position: the place of the next batch
        cpu_seconds, wall_seconds: used so far
        history: all validations
    """

    run: str
    updates: int = 0
    tokens: int = 0
    epoch: int = 0
    position: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    history: list[Validation] = field(default_factory=list)


class Checkpoint:
    """A directory with weights, moments of the optimizer, the best weights and counters.

    New files get new names; `state.json`, replaced last, says which files are valid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best: str = ""

    def load(self, run: str) -> Progress | None:
        """The progress of `run`; None if nothing was saved."""
        state = self.path / _STATE
        if not state.is_file():
            return None
        with disk_errors(self.path):
            values = json.loads(state.read_text("utf-8"))
        if values["progress"]["run"] != run:
            raise FinetuneError(
                f"{self.path} has an unfinished fine-tuning of another model, corpus or recipe; "
                "remove it, or choose another output directory."
            )
        self.best = values["best"]
        history = [Validation(**each) for each in values["progress"]["history"]]
        return Progress(**values["progress"] | {"history": history})

    def save(
        self, progress: Progress, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, improved: bool
    ) -> None:
        """Save the state after a validation; `improved` if its weights are the best so far."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            weights, moments = (f"{part}-{progress.updates}.safetensors" for part in ("weights", "moments"))
            self._write(weights, {name: each.detach() for name, each in trained.items()})
            self._write(moments, _moments_of(trained, optimizer))
            # the best weights are those of an earlier save, and stay
            self.best = weights if improved else self.best
            values = {"progress": asdict(progress), "weights": weights, "moments": moments, "best": self.best}
            write_json(self.path / _STATE, values)
            for file in self.path.iterdir():
                if file.name not in {_STATE, weights, moments, self.best}:
                    file.unlink()

    def restore(self, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Load weights and moments as they were saved."""
        with disk_errors(self.path):
            names = json.loads((self.path / _STATE).read_text("utf-8"))
            self._load_weights(names["weights"], trained)
            moments = load_file(self.path / names["moments"])
        for name, parameter in trained.items():
            if f"step.{name}" in moments:
                # AdamW keeps its step counts in float32 and, if it is fused, on the device
                optimizer.state[parameter] = {part: moments[f"{part}.{name}"].to(parameter.device) for part in _MOMENTS}

    def load_best(self, trained: dict[str, nn.Parameter]) -> None:
        """Load the weights of the best dev loss."""
        with disk_errors(self.path):
            self._load_weights(self.best, trained)

    @property
    def best_bytes(self) -> int:
        return (self.path / self.best).stat().st_size

    def remove(self) -> None:
        with disk_errors(self.path):
            (self.path / _STATE).unlink()  # first: without it the other files mean nothing
            for file in self.path.iterdir():
                file.unlink()
            self.path.rmdir()

    def _write(self, name: str, tensors: dict[str, Tensor]) -> None:
        path = self.path / name
        save_file({key: each.contiguous() for key, each in tensors.items()}, path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def _load_weights(self, name: str, trained: dict[str, nn.Parameter]) -> None:
        tensors = load_file(self.path / name)
        with torch.no_grad():
            for key, parameter in trained.items():
                parameter.copy_(tensors[key])


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
    with open(new, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Report a full disk or a missing permission as `FinetuneError`."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename or path}: {error.strerror or error}"
        raise FinetuneError(f"Fine-tuning cannot use {what}; fix this and run the same command again.") from error
