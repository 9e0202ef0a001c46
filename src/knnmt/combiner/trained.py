"""The common part of combiners with networks: the scale of distances, saved weights, seeded initialisation."""

import math
from abc import abstractmethod
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from knnmt.combiner.base import Combiner, damaged
from knnmt.combiner.combination import Combination
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import Observation
from knnmt.errors import MethodError
from knnmt.out_of_memory import memory_errors

WEIGHTS = "model.safetensors"

Module = TypeVar("Module", bound=nn.Module)


class Trained(Combiner):
    """A combiner with trained networks.

    Args:
        needs: what it needs to see
        scale: squared distances are divided by it before anything in the combiner sees them
    """

    network: nn.Module

    def __init__(self, needs: Needs, scale: float) -> None:
        super().__init__(needs)
        if needs.k < 1 or not 0 < scale < math.inf:
            raise MethodError(f"K is {needs.k} and the distances' scale {scale:g}; both must be finite and above 0.")
        self.scale = scale

    def prepare(self, observation: Observation) -> None:
        """Look at what it will be trained on, before training; most need nothing of it."""

    @abstractmethod
    def _combine(self, seen: Observation) -> Combination: ...

    def combine(self, observation: Observation) -> Combination:
        self.network.to(observation.distances.device)  # decoding may use another device than fitting
        return self._combine(observation)

    @property
    def signature(self) -> str:
        digest = blake2b(digest_size=4)
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return f"{super().signature}|weights:{digest.hexdigest()}"

    def save(self, directory: Path) -> None:
        super().save(directory)
        # not save_file, which ignores the umask and makes the file readable by its owner only
        (directory / WEIGHTS).write_bytes(save(self.network.state_dict()))

    @classmethod
    @memory_errors("load the combiner")
    def load(cls, directory: Path, config: dict[str, Any]) -> Self:
        combiner = super().load(directory, config)
        try:
            combiner.network.load_state_dict(load((directory / WEIGHTS).read_bytes()))
        except (OSError, SafetensorError, RuntimeError) as error:  # RuntimeError: weights of another shape
            raise damaged(directory, error) from error
        return combiner


def seeded(make: Callable[[], Module], seed: int) -> Module:
    """A module initialised from its own seed; the caller's random state does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
