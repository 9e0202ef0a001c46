"""Robust training: noise on the retrieved keys, and a pseudo pair where the gold token was not retrieved.

It changes the input of the networks in an update, never the store, and no gradient flows through it.
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
        alpha: α0, the share of positions perturbed in the first update; 0: no perturbation
        beta: α = α0 · exp(−updates / β)
        sigma: standard deviation of the noise on keys, in the units of the keys
        exact_perturbation: read the keys from the store and project them, instead of the closed form
        decline: whether α declines; otherwise it stays α0
        vector_perturbation: whether noise is added to keys
        pseudo_pairs: whether a pair with the gold token is added where it was not retrieved
    """

    alpha: float = option(1.0, "Share of positions perturbed in the first update.", group=_GROUP, minimum=0, maximum=1)
    beta: float = option(1000.0, "α declines as exp(−updates / β); the paper uses 10 for Koran.", group=_GROUP, above=0)
    sigma: float = option(0.01, "Standard deviation of the noise on keys.", group=_GROUP, minimum=0)
    exact_perturbation: bool = option(False, "Read and project the noisy keys; slow, for comparison.", group=_GROUP)
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
        """The fields of `Perturbation` only, without those of a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(Perturbation)}


@dataclass(frozen=True)
class Batch:
    """The positions of an update.

    Attributes:
        rows: their positions in the features  # [rows]
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
    """Computes perturbed distances."""

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        """Distances and log p(v_k | h_k) of the neighbours of rows `at`, with noise on their keys.  # both [at, K]"""

    def on_queries(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        """Distance and log p(gold | key) of pseudo pairs (ĥ + ε, gold) for rows `at`.  # both [at]"""


class ClosedForm:
    """The exact distribution of perturbed distances, without reading a key.

    With ε ~ N(0, σ²I) on the key, d = ‖q − h‖² becomes (√d − ε₁)² + σ²·χ²(D − 1), where ε₁ is the noise along
    q − h. The stored log p(v | key) does not change.
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
    """A perturbation and its noise."""

    how: Perturbation
    noise: Noise


def perturb(batch: Batch, alpha: float, perturber: Perturber, rng: np.random.Generator) -> Observation:
    """Perturb the neighbours of a batch, with two independent draws of probability α per position.

    First draw: noise on all K keys. Second draw, where the gold token is not among the values: a pseudo pair replaces
    the farthest neighbour. Then the neighbours are sorted again.
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
        farthest = new.distances[at].argmax(1)  # a missing neighbour, at distance +inf, if there is one
        new.distances[at, farthest], new.log_confidence[at, farthest] = noise.on_queries(batch, at)
        new.values[at, farthest], new.log_p_values[at, farthest] = batch.tokens[at], batch.log_p[at]
        new.ids[at, farthest] = -1
        pseudo = torch.zeros_like(new.values, dtype=torch.bool)
        pseudo[at, farthest] = True
        new = new.without_context(pseudo)  # a pseudo pair stands in no sentence
    return new.reordered(new.distances.argsort(dim=1, stable=True))
