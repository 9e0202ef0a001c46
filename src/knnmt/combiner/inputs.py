"""The networks' inputs from an observation: finite numbers in a range that networks can learn from."""

import torch
from torch import Tensor

from knnmt.combiner.observation import Observation

_LOWEST_LOG_P = -100.0  # lower values say nothing more, and would dominate the other inputs of a linear layer


def first_of_its_value(values: Tensor) -> Tensor:
    """Whether a neighbour's value does not occur among the nearer neighbours.  # [rows, K]"""
    same = values[:, :, None] == values[:, None, :]
    return ~same.tril(-1).any(2)


def distinct_counts(seen: Observation) -> Tensor:
    """r_k: how many distinct values the k nearest have.  # [rows, K]"""
    return (first_of_its_value(seen.values) & seen.exists).cumsum(1).to(seen.distances.dtype)


def scaled_distances(seen: Observation, scale: float) -> Tensor:
    """d_k divided by the scale; a missing neighbour gets the distance of the farthest one.  # [rows, K]"""
    found = seen.distances.masked_fill(~seen.exists, 0.0)
    return torch.where(seen.exists, found, found.amax(1, keepdim=True)) / scale


def retrieval_inputs(seen: Observation, scale: float) -> Tensor:
    """[d_1..d_K, r_1..r_K]  # [rows, 2K]"""
    return torch.cat([scaled_distances(seen, scale), distinct_counts(seen)], 1)


def log_p_inputs(seen: Observation) -> tuple[Tensor, Tensor, Tensor]:
    """log p_top, log p(v_k|h_k), log p(v_k|ĥ); 0 for missing neighbours, so that they add nothing."""
    missing = ~seen.exists
    return (
        seen.log_p_top.clamp_min(_LOWEST_LOG_P),
        seen.log_confidence.clamp_min(_LOWEST_LOG_P).masked_fill(missing, 0.0),
        seen.log_p_values.clamp_min(_LOWEST_LOG_P).masked_fill(missing, 0.0),
    )
