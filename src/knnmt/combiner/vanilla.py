"""Vanilla kNN-MT (Khandelwal et al. 2021): K, λ and T are fixed, tuned on dev data."""

from typing import Any, Self

import torch

from knnmt.combiner.base import Combiner
from knnmt.combiner.combination import Combination, Observation
from knnmt.errors import MethodError


class Vanilla(Combiner):
    """p_kNN ∝ Σ exp(−d_k / T) over the K nearest, with the same λ everywhere."""

    method = "vanilla"

    def __init__(self, k: int, lam: float, temperature: float) -> None:
        super().__init__()
        if k < 1 or not 0 <= lam <= 1 or not temperature > 0:
            raise MethodError("Vanilla kNN-MT needs K ≥ 1, λ between 0 and 1, and T above 0.")
        self.k, self.lam, self.temperature = k, lam, temperature

    def combine(self, observation: Observation) -> Combination:
        distances = observation.distances
        found = torch.isfinite(distances[:, :1])  # a row without any neighbour keeps the model's own distribution
        nearest = distances[:, :1].where(found, torch.zeros_like(distances[:, :1]))
        # relative to the nearest, so that exp never underflows for all of them
        weights = torch.softmax(-(distances - nearest).where(found, torch.zeros_like(distances)) / self.temperature, 1)
        return Combination(
            weights=weights * found,
            lam=self.lam * found.squeeze(1).float(),
            temperature=torch.full_like(distances[:, 0], self.temperature),
            c=torch.zeros_like(distances),
        )

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "lambda": self.lam, "temperature": self.temperature}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(options["k"], options["lambda"], options["temperature"])
