"""Where the rows of a pass are, if somebody else runs the model and may reorder its rows from pass to pass."""

from collections.abc import Sequence
from threading import local

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from knnmt.datastore import Ids
from knnmt.memory.context import UNKNOWN_TOKEN, Place, past_of_sequences
from knnmt.memory.observer import Observer
from knnmt.memory.similarity import Query

_BASE = np.uint64(0x9E3779B97F4A7C15)  # of a polynomial; odd, so that every token counts


class Passes(local):
    """What this thread keeps from one pass to the next.

    It is found again by source and prefix, so that it does not matter in which order the rows are.
    """

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._prefixes = np.empty(0, np.uint64)  # of the latest pass
        self._ids: Ids = np.empty((0, 0), np.int64)
        self._sources: Sequence[list[int]] | None = None
        self._query: Query | None = None

    def place(
        self,
        sequences: Tensor,
        rows: Tensor | None,
        names: Tensor,
        sources: Sequence[list[int]],
        first: int,
        prefix: int,
        ids: Ids,
    ) -> Place:
        """The place of each position that was searched, row after row.

        Args:
            sequences: what the decoder has read, start token included  # [rows, length]
            rows: the name of each row's source; None if it is unknown  # [rows]
            names: the names of `sources`  # [sources]
            sources: encoded sources
            first: the first position that was searched
            prefix: how many tokens at the start were given, not predicted
            ids: the neighbours found in this pass  # [rows · (length − first), K]
        """
        if sources is not self._sources:
            self._sources, self._query = sources, self.observer.query(sources)
        positions = sequences.shape[1] - first
        source, previous = None, None
        if rows is not None:
            if self._query is not None:
                same = rows[:, None] == names
                source = np.repeat(np.where(same.any(1).cpu(), same.int().argmax(1).cpu(), -1), positions)
            previous = self._previous(sequences.cpu().numpy(), rows.cpu().numpy(), first, ids)
        return Place(past_of_sequences(sequences, first, prefix).flatten(0, 1), self._query, source, previous)

    def _previous(self, sequences: NDArray[np.int64], sources: NDArray[np.int64], first: int, ids: Ids) -> Ids:
        """The neighbours one step before each position, from this pass or the one before; −1 where they are unknown."""
        hashes = _of_prefixes(sequences, sources)
        here = hashes[:, 1 + first :].ravel()
        if self._ids.shape[1] == ids.shape[1]:
            prefixes, known = np.concatenate([self._prefixes, here]), np.concatenate([self._ids, ids])
        else:
            prefixes, known = here, ids
        order = np.argsort(prefixes)
        wanted = hashes[:, first:-1].ravel()
        at = order[np.searchsorted(prefixes, wanted, sorter=order).clip(max=len(order) - 1)]
        found = prefixes[at] == wanted
        found &= np.repeat((sequences != UNKNOWN_TOKEN).all(1), sequences.shape[1] - first)
        self._prefixes, self._ids = here, ids
        return np.where(found[:, None], known[at], -1)


def _of_prefixes(sequences: NDArray[np.int64], sources: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each source with the first 0, 1, … tokens.  # [rows, 1 + length]"""
    terms = np.concatenate([sources[:, None], sequences + 1], 1).astype(np.uint64)
    powers = np.cumprod(np.full(terms.shape[1], _BASE))  # wraps around, as the products and sums do
    return np.cumsum(terms * powers, 1, dtype=np.uint64)
