"""How λ follows the model's confidence, as in the paper's analysis of λ.

The memory should count most where it knows the right token and the model does not.
"""

from dataclasses import dataclass
from typing import Any

import torch

from knnmt.combiner import Combiner
from knnmt.training import Features

INTERVALS = 5  # of p_NMT of the right token, from 0 to 1


@dataclass(frozen=True)
class LambdaPoint:
    """Mean λ where p_NMT of the right token is in [low, high) and the token is among the neighbours or is not."""

    low: float
    high: float
    retrieved: bool
    positions: int
    mean_lambda: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "confidence": [self.low, self.high],
            "retrieved": self.retrieved,
            "positions": self.positions,
            "mean_lambda": self.mean_lambda,
        }


@torch.inference_mode()
def lambda_curve(features: Features, combiner: Combiner) -> list[LambdaPoint]:
    """Points of both curves, those of retrieved tokens first, each from the least confident on."""
    counts = torch.zeros(2 * INTERVALS, dtype=torch.float64)
    sums = torch.zeros_like(counts)
    for rows, mixture in features.mixtures(combiner):
        seen = mixture.observation
        interval = (features.log_p[rows].exp() * INTERVALS).long().clamp_max(INTERVALS - 1).cpu()
        found = ((seen.values == features.tokens[rows][:, None]) & seen.exists).any(1).cpu()
        place = interval + INTERVALS * ~found
        counts += torch.bincount(place, minlength=2 * INTERVALS)
        sums += torch.bincount(place, mixture.combination.lam.double().cpu(), minlength=2 * INTERVALS)
    return [
        LambdaPoint(
            low=place % INTERVALS / INTERVALS,
            high=(place % INTERVALS + 1) / INTERVALS,
            retrieved=place < INTERVALS,
            positions=int(counts[place]),
            mean_lambda=float(sums[place] / counts[place]) if counts[place] else None,
        )
        for place in range(2 * INTERVALS)
    ]
