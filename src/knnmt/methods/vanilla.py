"""Vanilla kNN-MT (Khandelwal et al. 2021): K, λ and T are fixed, tuned on dev data.

Likelihood is computed for the whole grid from cached features; BLEU chooses among the best few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from knnmt.combiner import LOG_ZERO, Combination, Combiner, Needs, Observation, behind_nearest, log_shares
from knnmt.errors import MethodError
from knnmt.methods.method import LARGEST_K, FitTable, Fitted, Fitting, Method
from knnmt.options import option
from knnmt.training import Features

_GROUP = "Vanilla"

LAMBDAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# T in units of the median squared distance to the nearest neighbour, which differs a lot between models
TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
KS = (2, 4, 8, 16, 32)

_ROWS = 65_536


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
            log_odds=log_odds.where(exists[:, 0], LOG_ZERO),  # without neighbours p is p_NMT
            temperature=torch.full_like(observation.distances[:, 0], self.temperature),
            c=torch.zeros_like(observation.distances),
        )

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "lambda": self.lam, "temperature": self.temperature}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(options["k"], options["lambda"], options["temperature"])


@dataclass(frozen=True)
class Point:
    """A point of the grid and its dev NLL in nats per target token, end of sentence included."""

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
    """Every point of the grid, best first. `temperatures` are raw; by default around the median distance."""
    # three digits are precise enough, and easy to type again
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
    """log p of the gold tokens for every λ; p_kNN, the same for all, is computed once.  # [lambdas, positions]"""
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
    """The best point of each of the best λ's, because BLEU depends on λ much more than on T."""
    best: dict[float, Point] = {}
    for point in points:
        best.setdefault(point.lam, point)
    return list(best.values())[:count]


@dataclass(frozen=True)
class VanillaMethod(Method):
    """K, λ and T are tuned: by likelihood, then by BLEU among the best few.

    Attributes:
        k: number of neighbours; None: tuned too
        decode_best: how many points of the grid are decoded and compared by BLEU; 0: likelihood decides
        decode_sentences: how many dev sentences are decoded, from the first on
    """

    name = "vanilla"
    combiner = Vanilla

    k: int | None = option(None, "Neighbours; auto: tuned too.", minimum=1, maximum=LARGEST_K)
    decode_best: int = option(
        3, "Points of the grid compared by BLEU; 0: likelihood alone decides.", group=_GROUP, minimum=0
    )
    decode_sentences: int = option(100, "Dev sentences decoded for that.", group=_GROUP, minimum=1)

    def needs(self, entries: int) -> Needs:
        return Needs(max(self._ks(entries)))

    def fit(self, fitting: Fitting) -> Fitted:
        features = fitting.features
        grid = likelihood_grid(features, self._ks(features.k))
        decoded: list[tuple[Point, float]] = []
        if self.decode_best > 1 and fitting.bleu is not None:
            points = best_few(grid, self.decode_best)
            decoded = [(point, fitting.bleu(point.combiner(), self.decode_sentences)) for point in points]
        best = max(decoded, key=lambda scored: scored[1])[0] if decoded else grid[0]
        bleu = [_json(point, "bleu", score) for point, score in decoded]
        by_k = {point.k: point.nll for point in reversed(grid)}
        return Fitted(
            best.combiner(),
            record={"bleu": bleu},
            findings={"grid": [_json(point, "nll", point.nll) for point in grid]},
            facts=[("best NLL by K", ", ".join(f"{k}: {by_k[k]:.3f}" for k in sorted(by_k)))],
            tables=[_grid_table(grid, dict(decoded), best, features.base_nll)],
        )

    def _ks(self, entries: int) -> list[int]:
        return [self.k] if self.k is not None else [k for k in KS if k <= entries] or [entries]


def _json(point: Point, name: str, value: float) -> dict[str, Any]:
    return {"k": point.k, "lambda": point.lam, "temperature": point.temperature, name: value}


def _grid_table(grid: Sequence[Point], decoded: dict[Point, float], best: Point, base_nll: float) -> FitTable:
    """The dev likelihood over λ and T at the chosen K."""
    points = {(point.temperature, point.lam): point for point in grid if point.k == best.k}
    temperatures, lambdas = (sorted({point[axis] for point in points}) for axis in (0, 1))
    rows = []
    for temperature in temperatures:
        cells = [points[temperature, lam] for lam in lambdas]
        texts = [f"{point.nll:.3f}" + (f" ({decoded[point]:.1f} BLEU)" if point in decoded else "") for point in cells]
        rows.append([f"{temperature:g}", *texts])
    return FitTable(
        f"NLL of the dev tokens at K = {best.k} (nats per token; base {base_nll:.3f})",
        ["T", *(f"λ {lam:g}" for lam in lambdas)],
        rows,
        chosen=(temperatures.index(best.temperature), 1 + lambdas.index(best.lam)),
    )
