"""Robust kNN-MT (Jiang et al. 2022): weights and λ also depend on the model's own confidence."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

from knnmt.combiner import LOG_ZERO, Combination, Needs, Observation, Trained, behind_nearest, log_shares
from knnmt.combiner.inputs import log_p_inputs, retrieval_inputs
from knnmt.combiner.trained import seeded
from knnmt.errors import MethodError
from knnmt.methods.method import Fitted, Fitting
from knnmt.methods.trained import LARGEST_LAYER, NETWORKS, TrainedMethod
from knnmt.options import option
from knnmt.training import ClosedForm, Perturbation, Perturber, ReadBack

TEMPERATURES = ("sigmoid", "paper")
PARTS = ("wp", "dc")  # networks that can be left out, as in the paper's ablation
# parts of the training that can be left out, with the options that do so
TRAINING_PARTS: dict[str, dict[str, Any]] = {
    "vector-perturbation": {"vector_perturbation": False},
    "pseudo-pairs": {"pseudo_pairs": False},
    "robust-training": {"alpha": 0.0},
    "decline": {"decline": False},
}
PRESETS = {"released": {"dc": 4, "wp": 32}, "paper": {"dc": 32, "wp": 4}}  # hidden sizes
_SMALLEST = 1e-6  # keeps T and 1/T finite


class RobustNetworks(nn.Module):
    def __init__(self, k: int, top: int, dc: int, wp: int, without: Iterable[str]) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(2 * k, wp), nn.Tanh(), nn.Linear(wp, 2))  # (s_kNN, temperature)
        if "dc" not in without:
            self.dc = nn.Sequential(nn.Linear(2, dc), nn.Tanh(), nn.Linear(dc, 1))
        if "wp" not in without:
            self.nmt = nn.Linear(2 * k + top, 1)  # s_NMT


class Robust(Trained):
    """Distribution calibration (DC) and weight prediction (WP) networks, and a learned temperature.

    Args:
        k: number of neighbours
        scale: squared distances are divided by it
        top: how many of the model's highest log p's the WP network sees; K by default
        dc: hidden size of the DC network
        wp: hidden size of the network that s_kNN and T share
        temperature: `sigmoid`: 1/T = sigmoid of the network's output; `paper`: T = softplus of it
        without: `dc` (c_k = 0), `wp` (λ = sigmoid(s_kNN), no NMT features) or both
        seed: seed of the initial weights
    """

    method = "robust"
    network: RobustNetworks

    def __init__(
        self,
        k: int,
        scale: float,
        *,
        top: int | None = None,
        dc: int = 4,
        wp: int = 32,
        temperature: str = "sigmoid",
        without: Iterable[str] = (),
        seed: int = 0,
    ) -> None:
        self.without = tuple(sorted(set(without)))
        super().__init__(self.needs_of(k, top, self.without), scale)
        self.dc, self.wp, self.temperature = dc, wp, temperature
        if temperature not in TEMPERATURES:
            raise MethodError(f"There is no temperature {temperature}; choose one of {', '.join(TEMPERATURES)}.")
        if unknown := set(self.without) - set(PARTS):
            raise MethodError(f"Robust kNN-MT has no network {', '.join(sorted(unknown))}; it has {', '.join(PARTS)}.")
        if min(dc, wp) < 1 or self.needs.top < 0:
            raise MethodError("The hidden layers must have a size of 1 or more, and top must not be negative.")
        self.network = seeded(lambda: RobustNetworks(k, self.needs.top, dc, wp, self.without), seed)

    @staticmethod
    def needs_of(k: int, top: int | None, without: Iterable[str]) -> Needs:
        """What a combiner with these options needs; without WP, by default none of the model's highest log p's."""
        return Needs(k, (0 if "wp" in without else k) if top is None else top)

    def _combine(self, seen: Observation) -> Combination:
        exists = seen.exists
        top, confidence, own = log_p_inputs(seen)
        s_knn, heat = self.network.shared(retrieval_inputs(seen, self.scale)).unbind(1)
        inverse = heat.sigmoid() if self.temperature == "sigmoid" else 1 / softplus(heat).clamp_min(_SMALLEST)
        c, s_nmt = torch.zeros_like(own), torch.zeros_like(s_knn)
        if "dc" not in self.without:
            c = self.network.dc(torch.stack([confidence, own], 2)).squeeze(2)
        if "wp" not in self.without:
            s_nmt = self.network.nmt(torch.cat([top, confidence, own], 1)).squeeze(1)
        scores = c - behind_nearest(seen) / self.scale * inverse[:, None]
        return Combination(
            log_weights=log_shares(scores, exists),
            log_odds=(s_knn - s_nmt).where(exists[:, 0], LOG_ZERO),
            temperature=self.scale / inverse.clamp_min(_SMALLEST),
            c=c,
        )

    def options(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "scale": self.scale,
            "top": self.needs.top,
            "dc": self.dc,
            "wp": self.wp,
            "temperature": self.temperature,
            "without": list(self.without),
        }

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        return cls(**options)


@dataclass(frozen=True)
class RobustMethod(Perturbation, TrainedMethod):
    """Networks learn from distances and from the model's confidence; trained on perturbed neighbours.

    Attributes:
        without: parts to leave out, as in the paper's ablation
        preset: hidden sizes: `released` (DC 4, the shared network 32) or `paper` (32 and 4, as printed)
        dc, wp: hidden sizes, instead of the preset's
        top: how many of the model's highest log p's the WP network sees; K by default
        temperature: the form of T: `sigmoid` or `paper`
    """

    name = "robust"
    combiner = Robust

    without: tuple[str, ...] = option(
        (),
        f"Parts to leave out, as in the paper's ablation, separated by commas: {', '.join((*PARTS, *TRAINING_PARTS))}.",
        choices=(*PARTS, *TRAINING_PARTS),
    )
    preset: str = option(
        "released", "Hidden sizes: released (dc 4, wp 32) or paper (dc 32, wp 4).", group=NETWORKS, choices=PRESETS
    )
    dc: int | None = option(None, "Hidden size of the DC network.", group=NETWORKS, minimum=1, maximum=LARGEST_LAYER)
    wp: int | None = option(
        None, "Hidden size of the network of s_kNN and T.", group=NETWORKS, minimum=1, maximum=LARGEST_LAYER
    )
    top: int | None = option(None, "How many of the model's highest p's it sees; auto: K.", group=NETWORKS, minimum=0)
    temperature: str = option("sigmoid", "sigmoid (1/T) or paper (T = softplus).", group=NETWORKS, choices=TEMPERATURES)

    def needs(self, entries: int) -> Needs:
        return Robust.needs_of(self.k, self.top, self.without)

    def untrained(self, scale: float) -> Robust:
        asked = {"dc": self.dc, "wp": self.wp}
        sizes = PRESETS[self.preset] | {name: size for name, size in asked.items() if size is not None}
        networks = [part for part in self.without if part in PARTS]
        form = self.temperature
        return Robust(self.k, scale, top=self.top, temperature=form, without=networks, seed=self.seed, **sizes)

    @property
    def reads_keys(self) -> bool:
        return self.exact_perturbation

    def perturber(self, fitting: Fitting) -> Perturber | None:
        how = self._perturbation()
        if not how.changes_something:
            return None
        rng = np.random.default_rng([self.seed, 1])  # independent of the trainer's own random streams
        features = fitting.features
        if self.exact_perturbation:
            return Perturber(how, ReadBack(self.sigma, rng, features, fitting.store, fitting.engine))
        return Perturber(how, ClosedForm(self.sigma, features.dim, rng))

    def training_record(self) -> dict[str, Any]:
        return super().training_record() | self._perturbation().to_json()

    def fit(self, fitting: Fitting) -> Fitted:
        fitted = super().fit(fitting)
        if self._perturbation().alpha == 0:
            return fitted
        noise = f"{self.sigma**2 * fitting.features.dim:.3g}, to be compared with the median nearest squared distance"
        return replace(fitted, facts=[*fitted.facts, ("noise on a key, σ²·D", noise)])

    def _perturbation(self) -> Perturbation:
        """The perturbation, without the parts that are left out."""
        left_out: dict[str, Any] = {}
        for part in self.without:
            left_out |= TRAINING_PARTS.get(part, {})
        return Perturbation(**(Perturbation.to_json(self) | left_out))
