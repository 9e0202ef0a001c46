"""What a combiner sees: the neighbours of some decoder states, and the model's own predictions there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

import torch
from torch import Tensor

from knnmt.combiner.needs import CONTEXT, Needs
from knnmt.model import Logits
from knnmt.search import Neighbours

# Stands for log 0: exp of it is 0 in every float format, but no gradient becomes NaN.
LOG_ZERO = -1e4

Rows = slice | Tensor


_PER_NEIGHBOUR = {"per_neighbour": True}  # marks columns with one element per neighbour
_CONTEXT = {column for columns in CONTEXT.values() for column in columns}


@dataclass(frozen=True)
class Observation:
    """The neighbours of some decoder states, and the model's own predictions there. Log p's are never −inf.

    Attributes:
        distances: squared L2, raw, ascending; +inf where fewer than K neighbours exist  # [rows, K]
        values: the neighbours' tokens  # [rows, K]
        log_confidence: log p_NMT(v_k | h_k), stored with the entry  # [rows, K]
        log_p_values: log p_NMT(v_k | ĥ)  # [rows, K]
        ids: the neighbours' ids in the store; −1 where there is none  # [rows, K]
        log_p_top: the model's highest log p's, as many as the combiner asks for  # [rows, top]
        matching_past: how many tokens just before the neighbour, in its sentence, equal the row's last tokens
            # int64 [rows, K]
        same_beginning: whether these are all that stand before both  # bool [rows, K]
        source_similarity: cosine of the neighbour's source with that of the row  # [rows, K]
        continued: whether the entry just before the neighbour was a neighbour one step ago  # bool [rows, K]

    The last four are the context. They are 0 for missing neighbours, and None if no combiner needs them.
    """

    distances: Tensor = field(metadata=_PER_NEIGHBOUR)
    values: Tensor = field(metadata=_PER_NEIGHBOUR)
    log_confidence: Tensor = field(metadata=_PER_NEIGHBOUR)
    log_p_values: Tensor = field(metadata=_PER_NEIGHBOUR)
    ids: Tensor = field(metadata=_PER_NEIGHBOUR)
    log_p_top: Tensor
    matching_past: Tensor | None = field(default=None, metadata=_PER_NEIGHBOUR)
    same_beginning: Tensor | None = field(default=None, metadata=_PER_NEIGHBOUR)
    source_similarity: Tensor | None = field(default=None, metadata=_PER_NEIGHBOUR)
    continued: Tensor | None = field(default=None, metadata=_PER_NEIGHBOUR)

    @property
    def exists(self) -> Tensor:
        """Where there is a neighbour.  # [rows, K]"""
        return torch.isfinite(self.distances)

    def is_enough_for(self, needs: Needs) -> bool:
        """Whether it has everything that a combiner needs."""
        context = needs.context_columns <= self.columns().keys()
        return context and self.distances.shape[1] >= needs.k and self.log_p_top.shape[1] >= needs.top

    def without_context(self, rows: Tensor) -> Self:
        """A copy whose context is 0 in some rows.  # rows: bool [rows, 1] or [rows, K]"""
        context = {name: column for name, column in self.columns().items() if name in _CONTEXT}
        return replace(self, **{name: column.masked_fill(rows, 0) for name, column in context.items()})

    def columns(self) -> dict[str, Tensor]:
        """All columns that are not None, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: column for name, column in named.items() if column is not None}

    def by_neighbour(self) -> dict[str, Tensor]:
        """The columns with one element per neighbour, by name."""
        names = {each.name for each in fields(self) if each.metadata == _PER_NEIGHBOUR}
        return {name: column for name, column in self.columns().items() if name in names}

    def take(self, rows: Rows, needs: Needs) -> Self:
        """Some rows, reduced to what a combiner needs."""
        columns: dict[str, Tensor | None] = {
            name: column[rows, : needs.k] for name, column in self.by_neighbour().items()
        }
        columns |= dict.fromkeys(_CONTEXT - needs.context_columns)
        return replace(self, **columns, log_p_top=self.log_p_top[rows, : needs.top])  # type: ignore[arg-type]

    def reordered(self, order: Tensor) -> Self:
        """The neighbours of each row in another order.  # order [rows, K]"""
        return replace(self, **{name: column.gather(1, order) for name, column in self.by_neighbour().items()})

    def cpu(self) -> Self:
        return replace(self, **{name: column.cpu() for name, column in self.columns().items()})

    @classmethod
    def concatenate(cls, parts: Sequence["Observation"]) -> Self:
        """The rows of all parts, in order."""
        return cls(**{name: torch.cat([part.columns()[name] for part in parts]) for name in parts[0].columns()})


def observe(
    neighbours: Neighbours, logits: Logits, top: int = 0, context: Mapping[str, Tensor] | None = None
) -> Observation:
    """Join the neighbours with the model's own predictions.

    Args:
        logits: logits of the same rows
        top: how many of the model's highest log p's are wanted
        context: the columns of the context, by name
    """
    device = logits.device
    values = torch.from_numpy(neighbours.values).to(device, torch.int64)
    log_p_top = logits.highest(top)[0] if top else logits.values[:, :0].float()
    return Observation(
        distances=torch.from_numpy(neighbours.distances).to(device),
        values=values,
        log_confidence=torch.from_numpy(neighbours.log_confidence).to(device).clamp_min(LOG_ZERO),
        log_p_values=logits.log_p(values).clamp_min(LOG_ZERO),
        ids=torch.from_numpy(neighbours.ids).to(device),
        log_p_top=log_p_top.clamp_min(LOG_ZERO),
        **{name: column.to(device) for name, column in (context or {}).items()},
    )
