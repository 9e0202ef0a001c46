"""Vanilla kNN-MT (Khandelwal et al. 2021): K, λ and T are fixed, tuned on dev data."""

from typing import Any, Self

import torch

from knnmt.combiner.base import Combiner
from knnmt.combiner.combination import Combination, behind_nearest, log_shares
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import LOG_ZERO, Observation
from knnmt.errors import MethodError


class Vanilla(Combiner):
    """p_kNN ∝ Σ exp(−d_k / T) over the K nearest, with the same λ everywhere."""

    method = "vanilla"

    def __init__(self, k: int, lam: float, temperature: float) -> None:
        if k < 1 or not 0 <= lam <= 1 or not temperature > 0:
            raise MethodError("Vanilla kNN-MT needs K ≥ 1, λ between 0 and 1, and T above 0.")
        super().__init__(Needs(k))
        self.lam, self.temperature = lam, temperature

    def combine(self, observation: Observation) -> Combination:
        exists = observation.exists
        log_odds = torch.full_like(observation.distances[:, 0], self.lam).logit().clamp(LOG_ZERO, -LOG_ZERO)
        return Combination(
            log_weights=log_shares(behind_nearest(observation) / -self.temperature, exists),
            log_odds=log_odds.where(exists[:, 0], LOG_ZERO),  # without any neighbour the model's own distribution stays
            temperature=torch.full_like(observation.distances[:, 0], self.temperature),
            c=torch.zeros_like(observation.distances),
        )

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "lambda": self.lam, "temperature": self.temperature}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(options["k"], options["lambda"], options["temperature"])
