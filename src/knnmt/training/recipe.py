"""How networks are trained: every number of the recipe, with the value that is used unless another is given."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from knnmt.errors import MethodError


@dataclass(frozen=True)
class Recipe:
    """Options of training.

    Attributes:
        seed: of first weights, batches and perturbation; the same seed gives the same result
        updates: at most so many
        batch_sentences: sentences of an update
        learning_rate, adam_betas, adam_eps: of Adam
        clip: largest norm of a gradient
        label_smoothing: on the mixed distribution
        validate_from, validate_every: updates at which the dev loss is taken
        patience: validations without a better dev loss before training ends
        alpha: α0, the share of positions perturbed at first; 0: no perturbation at all
        beta: α = α0 · exp(−updates / β)
        sigma: of the noise on keys, in their own units
        decline: whether α declines; else it stays α0
        vector_perturbation: whether keys get noise
        pseudo_pairs: whether a pair with the right token is put in where it was not found
        exact_perturbation: read the keys back and project them, instead of the closed form of the distances
    """

    seed: int = 1
    updates: int = 5000
    batch_sentences: int = 32
    learning_rate: float = 3e-4
    adam_betas: tuple[float, float] = (0.9, 0.98)
    adam_eps: float = 1e-8
    clip: float = 1.0
    label_smoothing: float = 0.001
    validate_from: int = 1000
    validate_every: int = 100
    patience: int = 30
    alpha: float = 1.0
    beta: float = 1000.0
    sigma: float = 0.01
    decline: bool = True
    vector_perturbation: bool = True
    pseudo_pairs: bool = True
    exact_perturbation: bool = False

    def __post_init__(self) -> None:
        for name in ("updates", "batch_sentences", "validate_every", "patience"):
            if getattr(self, name) < 1:
                raise MethodError(f"Training with {name} {getattr(self, name)} is no training; give 1 or more.")
        for name in ("learning_rate", "adam_eps", "clip", "beta"):
            if not 0 < getattr(self, name) < math.inf:
                raise MethodError(f"Training cannot have {name} {getattr(self, name):g}; give a number above 0.")
        if not 0 <= self.alpha <= 1 or not 0 <= self.label_smoothing < 1:
            raise MethodError(
                "The share α is from 0 to 1, and label smoothing from 0 to below 1; change the one given."
            )
        if not 0 <= self.sigma < math.inf or min(self.validate_from, self.seed) < 0:
            raise MethodError(
                "The noise σ, the first validation and the seed are finite and not negative; change the one given."
            )
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise MethodError("Adam's two betas are shares from 0 to below 1; change them.")

    def ratio(self, update: int) -> float:
        """α of an update, counted from 0."""
        return self.alpha * (math.exp(-update / self.beta) if self.decline else 1.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
