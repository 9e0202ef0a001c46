"""What a combiner sees: what was found for some decoder states, and what the model itself thinks there."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from knnmt.combiner.needs import Needs
from knnmt.search import Neighbours

# The log of a share that is none: exp gives 0 in every float format, and yet no gradient becomes NaN.
NEVER = -1e4

Rows = slice | Tensor


@dataclass(frozen=True)
class Observation:
    """What was found for some decoder states, and what the model itself thinks there. Log p's are never −inf.

    Attributes:
        distances: squared L2, raw, ascending; +inf where fewer than K neighbours exist  # [rows, K]
        values: the neighbours' tokens  # [rows, K]
        log_confidence: log p_NMT(v_k | h_k), stored with the entry  # [rows, K]
        log_p_values: log p_NMT(v_k | ĥ)  # [rows, K]
        ids: the neighbours' ids in the store; −1 where there is none  # [rows, K]
        log_p_top: the model's highest log p's, as many as the combiner asks for  # [rows, top]
    """

    distances: Tensor
    values: Tensor
    log_confidence: Tensor
    log_p_values: Tensor
    ids: Tensor
    log_p_top: Tensor

    @property
    def exists(self) -> Tensor:
        """Where there is a neighbour.  # [rows, K]"""
        return torch.isfinite(self.distances)

    def by_neighbour(self) -> dict[str, Tensor]:
        """The columns that have a place for each neighbour, by name: all but those named here."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "log_p_top"}

    def take(self, rows: Rows, needs: Needs) -> Self:
        """Some rows, and of those what a combiner needs."""
        columns = {name: column[rows, : needs.k] for name, column in self.by_neighbour().items()}
        return replace(self, **columns, log_p_top=self.log_p_top[rows, : needs.top])

    def reordered(self, order: Tensor) -> Self:
        """The neighbours of each row in another order.  # order [rows, K]"""
        return replace(self, **{name: column.gather(1, order) for name, column in self.by_neighbour().items()})

    def cpu(self) -> Self:
        return type(self)(**{each.name: getattr(self, each.name).cpu() for each in fields(self)})

    @classmethod
    def concatenate(cls, parts: Sequence["Observation"]) -> Self:
        """The rows of all parts, one part behind the other."""
        return cls(**{each.name: torch.cat([getattr(part, each.name) for part in parts]) for each in fields(cls)})


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
        ids=torch.from_numpy(neighbours.ids).to(device),
        log_p_top=log_p_top.clamp_min(NEVER),
    )
