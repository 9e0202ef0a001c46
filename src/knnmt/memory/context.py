"""What neighbours and rows have in common besides their states: the tokens before them, their sources."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.datastore import Entries, Ids
from knnmt.memory.similarity import Query

LONGEST_PAST = 16  # maximum number of tokens compared
NO_TOKEN, UNKNOWN_TOKEN = -1, -2  # before the start of a target; written by somebody else

Columns = Mapping[str, Tensor]  # of an observation, by name


@dataclass(frozen=True)
class Place:
    """Where some rows are in their sentences. What no combiner needs may be None.

    Attributes:
        so_far: the tokens of each row so far, right-aligned and padded with `NO_TOKEN`  # [rows, any]
        query: the sources, to be compared with stored ones
        source: the source of each row among those of the query; −1 where it is unknown  # [rows]
        previous: the neighbours of each row one step ago; −1 where there are none  # [rows, K]
    """

    so_far: Tensor | None = None
    query: Query | None = None
    source: Ids | None = None
    previous: Ids | None = None


def matching_past(entries: Entries, ids: Ids, so_far: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens just before each neighbour, in its sentence, equal the last tokens of its row.  # [rows, K]

    The count ends at the first token that differs, at the start of either sentence, and at `LONGEST_PAST`.

    Args:
        ids: ids of the neighbours; −1 where there is none  # [rows, K]
        so_far: as in `Place`  # [rows, any]
    """
    counts = np.zeros(ids.shape, np.int64)
    rows, columns = (ids >= 0).nonzero()
    matching = ids[rows, columns]  # entries whose tokens were all equal up to here
    for back in range(1, min(LONGEST_PAST, so_far.shape[1]) + 1):
        matching = entries.before(matching)
        same = (matching >= 0) & (entries.values(matching) == so_far[rows, -back])
        rows, columns, matching = rows[same], columns[same], matching[same]
        if not len(rows):
            break
        counts[rows, columns] = back
    return counts


def same_beginning(entries: Entries, ids: Ids, so_far: NDArray[np.int64], past: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether all tokens before a neighbour and all tokens of its row are the same, fewer than `LONGEST_PAST`.

    Args:
        ids, so_far: as for `matching_past`
        past: its result
    """
    written = (so_far[:, -LONGEST_PAST:] != NO_TOKEN).sum(1)[:, None]
    same: NDArray[np.bool_] = (ids >= 0) & (past == written) & (past == entries.position(ids)) & (past < LONGEST_PAST)
    return same


def continued(entries: Entries, ids: Ids, previous: Ids) -> NDArray[np.bool_]:
    """Whether the entry just before a neighbour was among its row's neighbours one step ago.  # [rows, K]

    Args:
        ids: ids of the neighbours; −1 where there is none  # [rows, K]
        previous: as in `Place`  # [rows, K]
    """
    before, ordered = entries.before(ids), np.sort(previous, 1)
    low, high = np.zeros_like(before), np.full_like(before, ordered.shape[1])
    for _ in range(int(ordered.shape[1]).bit_length()):  # a binary search in each row
        middle = (low + high) // 2
        right = np.take_along_axis(ordered, middle.clip(max=ordered.shape[1] - 1), 1) < before
        low, high = np.where(right, middle + 1, low).clip(max=high), np.where(right, high, middle)
    at = low.clip(max=ordered.shape[1] - 1)
    found: NDArray[np.bool_] = (before >= 0) & (np.take_along_axis(ordered, at, 1) == before)
    return found


def previous_in_targets(ids: Ids, lengths: NDArray[np.int64]) -> Ids:
    """The neighbours at the position before each position of whole targets; −1 at their starts.  # [positions, K]

    Args:
        ids: ids of the neighbours at each position, target after target  # [positions, K]
        lengths: how many positions each target has  # [targets]
    """
    previous = np.roll(ids, 1, axis=0)
    previous[np.cumsum(lengths) - lengths] = -1
    return previous


def past_of_targets(tokens: Tensor, lengths: NDArray[np.int64]) -> Tensor:
    """The tokens before each position of whole targets, for `Place`.  # [positions, LONGEST_PAST]

    Args:
        tokens: the targets' tokens, concatenated  # [positions]
        lengths: how many tokens each target has  # [targets]
    """
    back = torch.arange(LONGEST_PAST, 0, -1, device=tokens.device)
    counts = torch.from_numpy(lengths).to(tokens.device)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)  # of each position's target
    index = torch.arange(len(tokens), device=tokens.device)[:, None] - back
    return torch.where(index >= starts[:, None], tokens[index.clamp_min(0)], NO_TOKEN)


def past_of_sequences(sequences: Tensor, first: int, prefix: int) -> Tensor:
    """The predicted tokens up to each position of some sequences, for `Place`.

    Args:
        sequences: what a decoder read, start token included
        first: the first position to return
        prefix: how many tokens at the start were given, not predicted

    Returns:
        [sequences, length − first, LONGEST_PAST]
    """
    back = torch.arange(LONGEST_PAST - 1, -1, -1, device=sequences.device)
    index = torch.arange(first, sequences.shape[1], device=sequences.device)[:, None] - back
    return torch.where(index >= prefix, sequences[:, index.clamp_min(0)], NO_TOKEN)
