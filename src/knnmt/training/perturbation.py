"""Robust training: noise on the keys that were found, and a made-up pair where the right token was not found.

It changes what the networks see in an update, never what is stored, and no gradient flows through it.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from knnmt.combiner import Observation
from knnmt.options import Options, option

_GROUP = "Robust training"


@dataclass(frozen=True)
class Perturbation(Options):
    """Which positions are perturbed, and how.

    Attributes:
        alpha: α0, the share of positions perturbed at first; 0: no perturbation at all
        beta: α = α0 · exp(−updates / β)
        sigma: of the noise on keys, in their own units
        exact_perturbation: read the keys back and project them, instead of the closed form of the distances
        decline: whether α declines; else it stays α0
        vector_perturbation: whether keys get noise
        pseudo_pairs: whether a pair with the right token is put in where it was not found
    """

    alpha: float = option(1.0, "Share of positions perturbed at first.", group=_GROUP, minimum=0, maximum=1)
    beta: float = option(1000.0, "α declines as exp(−updates / β); the paper has 10 for Koran.", group=_GROUP, above=0)
    sigma: float = option(0.01, "Of the noise on keys.", group=_GROUP, minimum=0)
    exact_perturbation: bool = option(False, "Read keys back and project them; slow, to compare.", group=_GROUP)
    decline: bool = True
    vector_perturbation: bool = True
    pseudo_pairs: bool = True

    def ratio(self, update: int) -> float:
        """α of an update, counted from 0."""
        return self.alpha * (math.exp(-update / self.beta) if self.decline else 1.0)

    @property
    def changes_something(self) -> bool:
        return self.alpha > 0 and (self.vector_perturbation or self.pseudo_pairs)

    def to_json(self) -> dict[str, Any]:
        """The perturbation alone, whatever else a subclass declares."""
        return {each.name: getattr(self, each.name) for each in fields(Perturbation)}


@dataclass(frozen=True)
class Batch:
    """The positions of an update.

    Attributes:
        rows: which positions of the features they are  # [rows]
        tokens: gold tokens  # [rows]
        log_p: their log p_NMT  # [rows]
        log_p_sum: Σ log p_NMT over the vocabulary  # [rows]
    """

    rows: Tensor
    seen: Observation
    tokens: Tensor
    log_p: Tensor
    log_p_sum: Tensor

    def __len__(self) -> int:
        return len(self.tokens)


class Noise(Protocol):
    """Where perturbed distances come from."""

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        """Distances and log p(v_k | h_k) of the neighbours of rows `at`, noise on their keys.  # both [at, K]"""

    def on_queries(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        """Distance and log p(gold | key) of pseudo pairs (ĥ + ε, gold) for rows `at`.  # both [at]"""


class ClosedForm:
    """The exact distribution of perturbed distances, without reading a key.

    With ε ~ N(0, σ²I) on the key, d = ‖q − h‖² becomes (√d − ε₁)² + σ²·χ²(D − 1), ε₁ being the noise along q − h.
    What is stored as log p(v | key) is kept.
    """

    def __init__(self, sigma: float, dim: int, rng: np.random.Generator) -> None:
        self.sigma, self.dim, self.rng = sigma, dim, rng

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        distances = batch.seen.distances[at].double()
        along = torch.from_numpy(self.rng.normal(0.0, self.sigma, distances.shape))
        across = self.sigma**2 * torch.from_numpy(self._chi_square(self.dim - 1, tuple(distances.shape)))
        return ((distances.sqrt() - along) ** 2 + across).float(), batch.seen.log_confidence[at]

    def on_queries(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        distances = self.sigma**2 * torch.from_numpy(self._chi_square(self.dim, (len(at),)))
        return distances.float(), batch.log_p[at]

    def _chi_square(self, freedom: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.rng.chisquare(freedom, shape) if freedom else np.zeros(shape)


@dataclass(frozen=True)
class Perturber:
    """A perturbation, and where its noise comes from."""

    how: Perturbation
    noise: Noise


def perturb(batch: Batch, alpha: float, perturber: Perturber, rng: np.random.Generator) -> Observation:
    """What was found, perturbed: two independent draws of probability α for each position.

    First draw: noise on all K keys. Second draw, where the gold token is not among the values: a pseudo pair comes
    in for the farthest. Then the pairs are sorted again.
    """
    how, noise = perturber.how, perturber.noise
    seen, rows = batch.seen, len(batch)
    noisy = torch.from_numpy(rng.random(rows) < alpha) & torch.tensor(how.vector_perturbation)
    found = ((seen.values == batch.tokens[:, None]) & seen.exists).any(1)
    missed = torch.from_numpy(rng.random(rows) < alpha) & ~found & torch.tensor(how.pseudo_pairs)
    changed = noisy | missed
    if not changed.any():
        return seen
    new = replace(seen, **{name: column.clone() for name, column in seen.by_neighbour().items()})
    if len(at := noisy.nonzero().squeeze(1)):
        new.distances[at], new.log_confidence[at] = noise.on_keys(batch, at)
    if len(at := missed.nonzero().squeeze(1)):
        farthest = new.distances[at].argmax(1)  # of missing neighbours, which are infinitely far, the first
        new.distances[at, farthest], new.log_confidence[at, farthest] = noise.on_queries(batch, at)
        new.values[at, farthest], new.log_p_values[at, farthest] = batch.tokens[at], batch.log_p[at]
        new.ids[at, farthest] = -1
        if new.matching_past is not None:
            new.matching_past[at, farthest] = 0  # nothing stands before a made-up pair
    return new.reordered(new.distances.argsort(dim=1, stable=True))
