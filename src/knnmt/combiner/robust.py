"""Confidence-enhanced robust kNN-MT (Jiang et al. 2022): the model's own confidence has a say in the trust."""

from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import softplus

from knnmt.combiner.combination import Combination, behind_nearest, log_shares
from knnmt.combiner.inputs import log_p_inputs, retrieval_inputs
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import LOG_ZERO, Observation
from knnmt.combiner.trained import Trained, seeded
from knnmt.errors import MethodError

TEMPERATURES = ("sigmoid", "paper")
PARTS = ("wp", "dc")  # what can be left out, as in the paper's ablation
PRESETS = {"released": {"dc": 4, "wp": 32}, "paper": {"dc": 32, "wp": 4}}  # hidden sizes
_SMALLEST = 1e-6  # T and 1/T are finite


class Robust(Trained):
    """Distribution calibration (DC) and weight prediction (WP) networks, and a learned temperature.

    Args:
        k: neighbours
        scale: what squared distances are divided by
        top: how many of the model's highest log p's the WP network sees; K by default
        dc: hidden size of the DC network
        wp: hidden size of the network that s_kNN and T share
        temperature: `sigmoid`: 1/T = sigmoid of the network's output; `paper`: T = softplus of it
        without: `dc` (c_k = 0), `wp` (λ = sigmoid(s_kNN), no NMT features) or both
        seed: of the first weights
    """

    method = "robust"
    network: "_Networks"

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
        super().__init__(Needs(k, (0 if "wp" in self.without else k) if top is None else top), scale)
        self.dc, self.wp, self.temperature = dc, wp, temperature
        if temperature not in TEMPERATURES:
            raise MethodError(f"There is no temperature {temperature}; choose one of {', '.join(TEMPERATURES)}.")
        if unknown := set(self.without) - set(PARTS):
            raise MethodError(f"Robust kNN-MT has no network {', '.join(sorted(unknown))}; it has {', '.join(PARTS)}.")
        if min(dc, wp) < 1 or self.needs.top < 0:
            raise MethodError("The hidden layers must have a size of 1 or more, and top must not be negative.")
        self.network = seeded(lambda: _Networks(k, self.needs.top, dc, wp, self.without), seed)

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


class _Networks(nn.Module):
    def __init__(self, k: int, top: int, dc: int, wp: int, without: Iterable[str]) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(2 * k, wp), nn.Tanh(), nn.Linear(wp, 2))  # (s_kNN, temperature)
        if "dc" not in without:
            self.dc = nn.Sequential(nn.Linear(2, dc), nn.Tanh(), nn.Linear(dc, 1))
        if "wp" not in without:
            self.nmt = nn.Linear(2 * k + top, 1)  # s_NMT
