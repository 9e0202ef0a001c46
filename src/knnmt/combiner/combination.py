"""What a combiner sees, and what it answers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.search import Neighbours

# The log of a share that is none: exp gives 0 in every float format, and yet no gradient becomes NaN.
NEVER = -1e4


@dataclass(frozen=True)
class Observation:
    """What was found for some decoder states, and what the model itself thinks there. Log p's are never −inf.

    Attributes:
        distances: squared L2, raw, ascending; +inf where fewer than K neighbours exist  # [rows, K]
        values: the neighbours' tokens  # [rows, K]
        log_confidence: log p_NMT(v_k | h_k), stored with the pair  # [rows, K]
        log_p_values: log p_NMT(v_k | ĥ)  # [rows, K]
        log_p_top: the model's highest log p's, as many as the combiner asks for  # [rows, top]
    """

    distances: Tensor
    values: Tensor
    log_confidence: Tensor
    log_p_values: Tensor
    log_p_top: Tensor

    @property
    def exists(self) -> Tensor:
        """Where there is a neighbour.  # [rows, K]"""
        return torch.isfinite(self.distances)


@dataclass(frozen=True)
class Combination:
    """How much to trust what was found; decoding, training, explanations and plots use the same.

    Attributes:
        log_weights: of the neighbours; the weights sum to 1 in a row. NEVER where there is no neighbour  # [rows, K]
        log_odds: log(λ / (1 − λ)), λ being the share of p_kNN in the mixture; NEVER without neighbours  # [rows]
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
    """log softmax along the last dimension over the neighbours that exist; NEVER for the others."""
    some = exists.any(-1, keepdim=True)
    scores = scores.masked_fill(~exists, -torch.inf).masked_fill(~some, 0.0)
    return torch.log_softmax(scores, -1).masked_fill(~exists, NEVER).clamp_min(NEVER)


def observe(neighbours: Neighbours, logits: Tensor, log_sum_exp: Tensor, top: int = 0) -> Observation:
    """Join the neighbours with the model's own view of them.

    Args:
        logits: [rows, vocabulary]
        log_sum_exp: of each row of them  # [rows]
        top: how many of the model's highest log p's are wanted
    """
    highest = logits.topk(top, dim=1).values.float() if top else logits[:, :0].float()
    return observe_with(neighbours, logits, log_sum_exp, highest - log_sum_exp[:, None])


def observe_with(neighbours: Neighbours, logits: Tensor, log_sum_exp: Tensor, log_p_top: Tensor) -> Observation:
    """`observe`, where the model's highest log p's are known already."""
    device = logits.device
    values = torch.from_numpy(neighbours.values).to(device, torch.int64)
    return Observation(
        distances=torch.from_numpy(neighbours.distances).to(device),
        values=values,
        log_confidence=torch.from_numpy(neighbours.log_confidence).to(device).clamp_min(NEVER),
        log_p_values=(logits.gather(1, values).float() - log_sum_exp[:, None]).clamp_min(NEVER),
        log_p_top=log_p_top.clamp_min(NEVER),
    )
