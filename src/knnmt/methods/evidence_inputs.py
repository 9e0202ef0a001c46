"""What the networks of `evidence` see, of each neighbour and of each row, as plain numbers.

Networks learn best from inputs of mean 0 and deviation 1, so both are measured on the training features and kept.
"""

import torch
from torch import Tensor, nn

from knnmt.combiner import Observation, behind_nearest, log_shares
from knnmt.combiner.inputs import distinct_counts, log_p_inputs, scaled_distances

TOP = 8  # how many of the model's highest log p's are seen
# kinds of evidence, with the number of inputs that each has for a neighbour
KINDS = {"distance": 4, "confidence": 4, "agreement": 2, "prefix": 3, "source": 2, "continuation": 1}
BEHIND = 1  # which input of the distance tells how far it is behind the nearest
_NEAR = 8  # distinct tokens are counted among so many neighbours, and among all
_LOWEST = -20.0  # lower log p's say nothing more
_SMALLEST = 1e-3  # a distance, after scaling; its logarithm stays finite


def of_neighbours(seen: Observation, scale: float) -> dict[str, Tensor]:
    """The inputs of each neighbour by kind, for the context that was observed.  # each [rows, K, inputs]"""
    exists, k = seen.exists, seen.distances.shape[1]
    distance, behind = scaled_distances(seen, scale), behind_nearest(seen) / scale
    _, confidence, own = (each.clamp_min(_LOWEST) for each in log_p_inputs(seen))
    rank = torch.arange(k, dtype=distance.dtype, device=distance.device).expand_as(distance) / k
    alike = (seen.values[:, :, None] == seen.values[:, None, :]) & exists[:, None, :]
    votes = alike.sum(2, dtype=distance.dtype)
    share = votes.clamp_min(1) / exists.sum(1, keepdim=True).clamp_min(1)
    inputs = {
        "distance": [distance, behind, distance.clamp_min(_SMALLEST).log(), rank],
        "confidence": [confidence, confidence.exp(), own, own.exp()],
        "agreement": [share, share.log()],
    }
    if seen.matching_past is not None and seen.same_beginning is not None:
        past = seen.matching_past.to(distance.dtype)
        inputs["prefix"] = [past.clamp_max(4), past.log1p(), seen.same_beginning.to(distance.dtype)]
    if seen.source_similarity is not None:
        cosine = seen.source_similarity.to(distance.dtype)
        inputs["source"] = [cosine, cosine - cosine.amax(1, keepdim=True)]
    if seen.continued is not None:
        inputs["continuation"] = [seen.continued.to(distance.dtype)]
    return {kind: torch.stack(columns, 2) for kind, columns in inputs.items()}


def ranks(k: int) -> list[int]:
    """The ranks whose distances describe a row."""
    return sorted({rank for rank in (1, 2, 4, 8, k // 2, k) if 1 <= rank <= k})


def of_rows(seen: Observation, scale: float) -> Tensor:
    """The inputs of each row.  # [rows, row_size(K)]"""
    k = seen.distances.shape[1]
    top, confidence, own = (each.clamp_min(_LOWEST) for each in log_p_inputs(seen))
    distinct = distinct_counts(seen).clamp_min(1).log()
    near = log_shares(-behind_nearest(seen) / scale, seen.exists).exp()
    means = [(near * each).sum(1, keepdim=True) for each in (confidence, own)]
    distances = scaled_distances(seen, scale)[:, [rank - 1 for rank in ranks(k)]]
    return torch.cat([top, distances, distinct[:, [min(_NEAR, k) - 1, k - 1]], *means], 1)


def row_size(k: int) -> int:
    """How many inputs a row has."""
    return TOP + len(ranks(k)) + 4


class Standardised(nn.Module):
    """Inputs minus their mean, divided by their deviation; as they are until `measure` was called."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("deviation", torch.ones(size))

    def measure(self, inputs: Tensor) -> None:
        """Measure mean and deviation of some inputs; one that never varies keeps a deviation of 1.  # [n, size]"""
        inputs = inputs.double()
        self.mean.copy_(inputs.mean(0))
        deviation = inputs.std(0, correction=0)
        self.deviation.copy_(deviation.where(deviation > _SMALLEST, 1.0))

    def forward(self, inputs: Tensor) -> Tensor:
        standard: Tensor = (inputs - self.mean) / self.deviation
        return standard
