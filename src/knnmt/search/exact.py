"""Exact search and exact distances.

`nearest` and `nearest_allowed` compare with every key and rank by distances from BLAS, whose last digits are not exact.
`closest` computes the distances of a few candidates exactly.
"""

from collections.abc import Callable, Iterable

import faiss
import numpy as np
import numpy.typing as npt

from knnmt.datastore import Entries, Ids
from knnmt.search.candidates import Candidates, in_order
from knnmt.search.keys import Floats, float32, key_blocks, one_thread, prefer_blas
from knnmt.search.parameters import GATHERED_NUMBERS, PARALLEL_PRODUCTS, TABLE_NUMBERS

# candidate ids [n, m] (−1 where there is none) and the rows [n] of their queries → mask [n, m],
# True where an entry must be left out
Exclude = Callable[[Ids, Ids], npt.NDArray[np.bool_]]


class DamagedKeyError(Exception):
    """A stored key that is not finite."""


def nearest(blocks: Iterable[tuple[Ids, Floats]], queries: Floats, k: int) -> Candidates:
    """The keys [rows, at most k] in the blocks nearest to queries [rows, dim], nearest first."""
    best = _Best(len(queries), k)
    for ids, keys in blocks:
        prefer_blas(queries.shape[1])
        with one_thread(keys.size * len(queries) < PARALLEL_PRODUCTS):
            distances, rows = faiss.knn(queries, keys, min(k, len(keys)))
        best.add(ids[rows], distances)
    return Candidates(best.ids, best.distances)


def nearest_allowed(entries: Entries, queries: Floats, rows: Ids, k: int, exclude: Exclude | None) -> Ids:
    """`nearest` over all entries except those that `exclude` leaves out; −1 where fewer are left. Slow but complete.

    Args:
        rows: the rows of the queries, for `exclude`  # [len(queries)]
    """
    best = _Best(len(queries), k)
    for ids, keys in key_blocks(entries, max(1, TABLE_NUMBERS // max(len(queries), entries.dim))):
        prefer_blas(entries.dim)
        table = np.broadcast_to(ids, (len(queries), len(ids)))
        distances = faiss.pairwise_distances(queries, keys)  # [rows, block]
        if exclude is not None:
            distances[exclude(table, rows)] = np.inf
        best.add(table, distances)
    return np.where(np.isinf(best.distances), -1, best.ids)


def squared_distances(entries: Entries, queries: Floats, ids: Ids) -> Floats:
    """Squared L2 distances of queries [rows, dim] to the stored keys of ids [rows, m]; float32 [rows, m].

    +inf where the id is −1. Computed from the differences: ‖q‖² − 2q·h + ‖h‖² loses the last digits for near entries.
    """
    rows, width = ids.shape
    distances = np.empty((rows, width), dtype=np.float32)
    present = np.where(ids < 0, entries.ids(np.zeros(1, dtype=np.int64)), ids)  # any valid id in place of −1
    step = max(1, GATHERED_NUMBERS // max(1, width * entries.dim))
    for start in range(0, rows, step):
        chunk = slice(start, start + step)
        difference = float32(entries.keys(present[chunk].reshape(-1))).reshape(-1, width, entries.dim)
        difference -= queries[chunk, None, :]
        distances[chunk] = np.einsum("rmd,rmd->rm", difference, difference)
    distances[ids < 0] = np.inf
    return distances


def closest(entries: Entries, queries: Floats, candidates: Ids, k: int) -> tuple[Ids, Floats]:
    """The k nearest of the candidates [rows, m]: ids and exact distances [rows, k], padded with −1 and +inf.

    Raises IndexError for an id that the store does not have, and `DamagedKeyError`.
    """
    # Sorted as on disk: adjacent rows are read together, and ties are ordered by id for every kind of index.
    candidates = np.sort(candidates, axis=1)
    distances = squared_distances(entries, queries, candidates)
    if not (np.isfinite(distances) | (candidates < 0)).all():
        raise DamagedKeyError
    return in_order(candidates, distances, np.argsort(distances, axis=1, kind="stable"), k)


class _Best:
    """The k nearest seen so far."""

    def __init__(self, rows: int, k: int) -> None:
        self.k = k
        self.ids = np.empty((rows, 0), dtype=np.int64)
        self.distances = np.empty((rows, 0), dtype=np.float32)

    def add(self, ids: Ids, distances: Floats) -> None:
        if distances.shape[1] > self.k:
            few = np.argpartition(distances, self.k - 1, axis=1)[:, : self.k]
            ids, distances = np.take_along_axis(ids, few, axis=1), np.take_along_axis(distances, few, axis=1)
        ids = np.concatenate([self.ids, ids], axis=1)
        distances = np.concatenate([self.distances, distances], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, : self.k]
        self.ids = np.take_along_axis(ids, order, axis=1)
        self.distances = np.take_along_axis(distances, order, axis=1)
