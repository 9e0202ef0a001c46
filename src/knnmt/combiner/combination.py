"""The answer of a combiner."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner.observation import LOG_ZERO, Observation


@dataclass(frozen=True)
class Combination:
    """How much to trust the neighbours. Decoding, training, explanations and plots all use it.

    Attributes:
        log_weights: log weights of the neighbours; the weights of a row sum to 1; LOG_ZERO where there is no
            neighbour  # [rows, K]
        log_odds: log(λ / (1 − λ)), where λ is the share of p_kNN in the mixture; LOG_ZERO without neighbours  # [rows]
        temperature: T in raw squared distances  # [rows]
        c: c_k of the distribution calibration, 0 for methods without it  # [rows, K]
    """

    log_weights: Tensor
    log_odds: Tensor
    temperature: Tensor
    c: Tensor

    @property
    def weights(self) -> Tensor:
        return self.log_weights.exp()

    @property
    def lam(self) -> Tensor:
        """λ  # [rows]"""
        return self.log_odds.sigmoid()


def behind_nearest(seen: Observation) -> Tensor:
    """Distances minus that of the nearest neighbour; 0 for missing neighbours.  # [rows, K]

    Softmax ignores the constant, but in float32 a large one would cost precision.
    """
    return (seen.distances - seen.distances[:, :1]).masked_fill(~seen.exists, 0.0)


def log_shares(scores: Tensor, exists: Tensor) -> Tensor:
    """log softmax along the last dimension over the neighbours that exist; LOG_ZERO for the others."""
    some = exists.any(-1, keepdim=True)
    scores = scores.masked_fill(~exists, -torch.inf).masked_fill(~some, 0.0)
    return torch.log_softmax(scores, -1).masked_fill(~exists, LOG_ZERO).clamp_min(LOG_ZERO)
