"""Adaptive kNN-MT (Zheng et al. 2021): a network chooses at each position how many neighbours to trust."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from knnmt.combiner import LOG_ZERO, Combination, Needs, Observation, Trained, behind_nearest, log_shares
from knnmt.combiner.inputs import retrieval_inputs
from knnmt.combiner.trained import seeded
from knnmt.errors import MethodError
from knnmt.methods.method import Fitted, Fitting
from knnmt.methods.trained import LARGEST_LAYER, NETWORKS, TrainedMethod
from knnmt.methods.vanilla import Vanilla, likelihood_grid
from knnmt.options import option

_TEMPERATURES = (0.1, 0.2, 0.5, 1.0, 2.0)  # in units of the median nearest distance


class Adaptive(Trained):
    """The meta-k network: a softmax over {0, 1, 2, 4, …, K} neighbours; λ is 1 − p(0).

    Args:
        k: number of neighbours, a power of two
        scale: squared distances are divided by it
        temperature: T in raw squared distances
        hidden: size of the network's hidden layer
        seed: seed of the initial weights
    """

    method = "adaptive"
    network: nn.Sequential

    def __init__(self, k: int, scale: float, temperature: float, *, hidden: int = 32, seed: int = 0) -> None:
        super().__init__(Needs(k), scale)
        if k & (k - 1):
            raise MethodError(f"Adaptive kNN-MT chooses among 1, 2, 4, … K neighbours, so K cannot be {k}; give 8.")
        if not 0 < temperature < math.inf or hidden < 1:
            raise MethodError("Adaptive kNN-MT needs T above 0 and a hidden layer of 1 or more.")
        self.temperature, self.hidden = temperature, hidden
        self.network = seeded(lambda: _meta_k(k, hidden), seed)

    def _combine(self, seen: Observation) -> Combination:
        exists = seen.exists
        choice = self.network(retrieval_inputs(seen, self.scale)).log_softmax(1)  # [rows, 2 + log2 K]
        log_none, log_some = choice[:, 0], choice[:, 1:]
        scores = (behind_nearest(seen) / -self.temperature)[:, None, :]
        shares = log_shares(scores, exists[:, None, :] & self._reach(exists.device))  # [rows, choices, K]
        log_lam = log_some.logsumexp(1)
        return Combination(
            log_weights=((log_some[:, :, None] + shares).logsumexp(1) - log_lam[:, None]).clamp_min(LOG_ZERO),
            log_odds=(log_lam - log_none).where(exists[:, 0], LOG_ZERO),
            temperature=torch.full_like(log_lam, self.temperature),
            c=torch.zeros_like(seen.distances),
        )

    def _reach(self, device: torch.device) -> Tensor:
        """Which neighbours belong to each choice: the first 1, 2, 4, …  # [choices, K]"""
        sizes = 2 ** torch.arange(self.k.bit_length(), device=device)
        return torch.arange(self.k, device=device) < sizes[:, None]

    def options(self) -> dict[str, Any]:
        return {"k": self.k, "scale": self.scale, "temperature": self.temperature, "hidden": self.hidden}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(options["k"], options["scale"], options["temperature"], hidden=options["hidden"])


def _meta_k(k: int, hidden: int) -> nn.Sequential:
    first = nn.Linear(2 * k, hidden)
    nn.init.xavier_normal_(first.weight[:, :k], gain=0.01)
    nn.init.xavier_normal_(first.weight[:, k:], gain=0.1)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(hidden, 1 + k.bit_length()))


@dataclass(frozen=True)
class AdaptiveMethod(TrainedMethod):
    """A network chooses how many neighbours to trust.

    Attributes:
        hidden: size of the network's hidden layer
        temperature: T; None: T of the store's vanilla combiner, or without one the likeliest of five
    """

    name = "adaptive"
    combiner = Adaptive

    hidden: int = option(32, "Hidden size of the network.", group=NETWORKS, minimum=1, maximum=LARGEST_LAYER)
    temperature: float | None = option(
        None, "T, a number; auto: T of the store's vanilla, or else the likeliest of five.", group=NETWORKS, above=0
    )

    def untrained(self, scale: float) -> Adaptive:
        return Adaptive(self.k, scale, self.temperature or 1.0, hidden=self.hidden, seed=self.seed)

    def fit(self, fitting: Fitting) -> Fitted:
        if self.temperature is None:
            return replace(self, temperature=self._likeliest(fitting)).fit(fitting)
        return super().fit(fitting)

    def _likeliest(self, fitting: Fitting) -> float:
        """T of the store's vanilla combiner; without one, the T with the highest likelihood of the features."""
        vanilla = fitting.of_store(Vanilla.method)
        if isinstance(vanilla, Vanilla):
            return vanilla.temperature
        temperatures = [share * max(fitting.features.median_nearest, 1e-6) for share in _TEMPERATURES]
        return likelihood_grid(fitting.features, [self.k], temperatures=temperatures)[0].temperature
