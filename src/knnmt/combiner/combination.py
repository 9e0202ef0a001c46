"""What a combiner answers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.combiner.observation import LOG_ZERO, Observation


@dataclass(frozen=True)
class Combination:
    """How much to trust what was found; decoding, training, explanations and plots use the same.

    Attributes:
        log_weights: of the neighbours; the weights sum to 1 in a row. LOG_ZERO where there is no neighbour  # [rows, K]
        log_odds: log(λ / (1 − λ)), λ being the share of p_kNN in the mixture; LOG_ZERO without neighbours  # [rows]
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
    """How much farther than the nearest each is: softmax ignores the rest, float32 would not.  # [rows, K]

    0 for missing neighbours.
    """
    return (seen.distances - seen.distances[:, :1]).masked_fill(~seen.exists, 0.0)


def log_shares(scores: Tensor, exists: Tensor) -> Tensor:
    """log softmax along the last dimension over the neighbours that exist; LOG_ZERO for the others."""
    some = exists.any(-1, keepdim=True)
    scores = scores.masked_fill(~exists, -torch.inf).masked_fill(~some, 0.0)
    return torch.log_softmax(scores, -1).masked_fill(~exists, LOG_ZERO).clamp_min(LOG_ZERO)
