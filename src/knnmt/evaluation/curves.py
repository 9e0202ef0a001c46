"""λ by the model's confidence, as in the paper's analysis of λ.

λ should be largest where the gold token is retrieved and the model is not confident.
"""

from dataclasses import dataclass
from typing import Any

import torch

from knnmt.combiner import Combiner
from knnmt.training import Features

INTERVALS = 5  # of p_NMT of the gold token, from 0 to 1


@dataclass(frozen=True)
class LambdaPoint:
    """Mean λ where p_NMT of the gold token is in [low, high) and the token was retrieved, or was not."""

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
    """Points of both curves: first retrieved tokens, then the others, each by ascending confidence."""
    counts = torch.zeros(2 * INTERVALS, dtype=torch.float64)
    sums = torch.zeros_like(counts)
    for rows, mixture in features.mixtures(combiner):
        seen = mixture.observation
        interval = (features.log_p[rows].exp() * INTERVALS).long().clamp_max(INTERVALS - 1).cpu()
        found = ((seen.values == features.tokens[rows][:, None]) & seen.exists).any(1).cpu()
        bins = interval + INTERVALS * ~found
        counts += torch.bincount(bins, minlength=2 * INTERVALS)
        sums += torch.bincount(bins, mixture.combination.lam.double().cpu(), minlength=2 * INTERVALS)
    return [
        LambdaPoint(
            low=index % INTERVALS / INTERVALS,
            high=(index % INTERVALS + 1) / INTERVALS,
            retrieved=index < INTERVALS,
            positions=int(counts[index]),
            mean_lambda=float(sums[index] / counts[index]) if counts[index] else None,
        )
        for index in range(2 * INTERVALS)
    ]
