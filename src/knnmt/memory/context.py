"""Compare the tokens before a neighbour, in its sentence, with the tokens translated so far."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.datastore import Entries, Ids

LONGEST_PAST = 16  # maximum number of tokens compared


def matching_past(entries: Entries, ids: Ids, so_far: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens just before each neighbour, in its sentence, equal the last tokens of its row.  # [rows, K]

    The count ends at the first token that differs, at the start of either sentence, and at `LONGEST_PAST`.

    Args:
        ids: ids of the neighbours; −1 where there is none  # [rows, K]
        so_far: the tokens of each row so far, right-aligned and padded with −1  # [rows, any]
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


def past_of_targets(tokens: Tensor, lengths: NDArray[np.int64]) -> Tensor:
    """The tokens before each position of whole targets, for `matching_past`.  # [positions, LONGEST_PAST]

    Args:
        tokens: the targets' tokens, concatenated  # [positions]
        lengths: how many tokens each target has  # [targets]
    """
    back = torch.arange(LONGEST_PAST, 0, -1, device=tokens.device)
    counts = torch.from_numpy(lengths).to(tokens.device)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)  # of each position's target
    index = torch.arange(len(tokens), device=tokens.device)[:, None] - back
    return torch.where(index >= starts[:, None], tokens[index.clamp_min(0)], -1)


def past_of_sequences(sequences: Tensor, first: int, prefix: int) -> Tensor:
    """The predicted tokens up to each position of some sequences, for `matching_past`.

    Args:
        sequences: what a decoder read, start token included; −1 for unknown tokens  # [sequences, length]
        first: the first position to return
        prefix: how many tokens at the start were given, not predicted

    Returns:
        [sequences, length − first, LONGEST_PAST]
    """
    back = torch.arange(LONGEST_PAST - 1, -1, -1, device=sequences.device)
    index = torch.arange(first, sequences.shape[1], device=sequences.device)[:, None] - back
    return torch.where(index >= prefix, sequences[:, index.clamp_min(0)], -1)
