"""What a combiner sees, and what it answers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from knnmt.search import Neighbours


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


@dataclass(frozen=True)
class Combination:
    """How much to trust what was found; decoding, explanations and plots use the same.

    Attributes:
        weights: of the neighbours; they sum to 1 in a row, or are all 0 where there is no neighbour  # [rows, K]
        lam: λ, the share of p_kNN in the mixture  # [rows]
        temperature: T in raw squared distances  # [rows]
        c: c_k of the distribution calibration, 0 for methods without it  # [rows, K]
    """

    weights: Tensor
    lam: Tensor
    temperature: Tensor
    c: Tensor


def observe(neighbours: Neighbours, logits: Tensor, log_sum_exp: Tensor, top: int = 0) -> Observation:
    """Join the neighbours with the model's own view of them.

    Args:
        logits: [rows, vocabulary]
        log_sum_exp: of each row of them  # [rows]
        top: how many of the model's highest log p's are wanted
    """
    device = logits.device
    values = torch.from_numpy(neighbours.values).to(device, torch.int64)
    log_sum_exp = log_sum_exp[:, None]
    highest = logits.topk(top, dim=1).values.float() - log_sum_exp if top else log_sum_exp[:, :0]
    lowest = torch.finfo(torch.float32).min
    return Observation(
        distances=torch.from_numpy(neighbours.distances).to(device),
        values=values,
        log_confidence=torch.from_numpy(neighbours.log_confidence).to(device),
        log_p_values=(logits.gather(1, values).float() - log_sum_exp).clamp_min(lowest),
        log_p_top=highest.clamp_min(lowest),
    )
