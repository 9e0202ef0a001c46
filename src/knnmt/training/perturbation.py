"""Robust training: noise on the keys that were found, and a made-up pair where the right token was not found.

It changes what the networks see in an update, never what is stored, and no gradient flows through it.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from knnmt.combiner import Observation
from knnmt.training.recipe import Recipe


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


def perturb(batch: Batch, alpha: float, recipe: Recipe, noise: Noise, rng: np.random.Generator) -> Observation:
    """What was found, perturbed: two independent draws of probability α for each position.

    First draw: noise on all K keys. Second draw, where the gold token is not among the values: a pseudo pair comes
    in for the farthest. Then the pairs are sorted again.
    """
    seen, rows = batch.seen, len(batch)
    noisy = torch.from_numpy(rng.random(rows) < alpha) & torch.tensor(recipe.vector_perturbation)
    found = ((seen.values == batch.tokens[:, None]) & seen.exists).any(1)
    missed = torch.from_numpy(rng.random(rows) < alpha) & ~found & torch.tensor(recipe.pseudo_pairs)
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
