"""K, λ and T of vanilla kNN-MT: likelihood for the whole grid from cached features, BLEU for the best few."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner import Vanilla
from knnmt.training import Features

LAMBDAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# T in units of the median squared distance to the nearest neighbour, which differs by orders between models
TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
KS = (2, 4, 8, 16, 32)

_ROWS = 65_536


@dataclass(frozen=True)
class Point:
    """A place of the grid and its dev likelihood: nats a target token, end of sentence included."""

    k: int
    lam: float
    temperature: float
    nll: float

    def combiner(self) -> Vanilla:
        return Vanilla(self.k, self.lam, self.temperature)


def likelihood_grid(
    features: Features,
    ks: Sequence[int],
    lambdas: Sequence[float] = LAMBDAS,
    temperatures: Sequence[float] | None = None,
) -> list[Point]:
    """Every place of the grid, best first. `temperatures` are raw; by default around the median distance."""
    # three digits: T is a knob, and a reader should be able to type it again
    scale = max(features.median_nearest, 1e-6)
    temperatures = temperatures or [float(f"{share * scale:.3g}") for share in TEMPERATURES]
    shares = torch.tensor(lambdas, dtype=torch.float64)
    points = []
    for k in ks:
        for temperature in temperatures:
            nll = -_log_p(features, k, temperature, shares).mean(1)
            points += [Point(k, lam, temperature, value) for lam, value in zip(lambdas, nll.tolist(), strict=True)]
    return sorted(points, key=lambda point: point.nll)


def _log_p(features: Features, k: int, temperature: float, lambdas: Tensor) -> Tensor:
    """log p of the gold tokens for every λ; p_kNN does not depend on λ and is made once.  # [lambdas, positions]"""
    combiner = Vanilla(k, 1.0, temperature)
    parts = []
    for start in range(0, len(features), _ROWS):
        rows = slice(start, start + _ROWS)
        seen = features.observation.take(rows, combiner.needs)
        weights = combiner.combine(seen).weights
        parts.append((weights * (seen.values == features.tokens[rows, None])).sum(1).double())
    p_knn, p_nmt = torch.cat(parts), features.log_p.double().exp()
    return (lambdas[:, None] * p_knn + (1 - lambdas[:, None]) * p_nmt).clamp_min(1e-300).log()


def best_few(points: Sequence[Point], count: int) -> list[Point]:
    """The best place of each of the best λ's: λ is what BLEU depends on most, and its neighbours in T tell little."""
    best: dict[float, Point] = {}
    for point in points:
        best.setdefault(point.lam, point)
    return list(best.values())[:count]
