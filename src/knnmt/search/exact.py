"""Exact search: every key is looked at. Its distances are those of BLAS, good for ranking; see `distance`."""

from collections.abc import Callable, Iterable

import faiss
import numpy as np
import numpy.typing as npt

from knnmt.datastore import Entries, Ids
from knnmt.search.keys import Floats, key_blocks
from knnmt.search.parameters import PARALLEL_PRODUCTS
from knnmt.search.threads import one_thread

# candidate ids [n, m] (−1 where there is none) and the queries [n] they were found for, by number → mask [n, m],
# True where an entry is to be left out
Exclude = Callable[[Ids, Ids], npt.NDArray[np.bool_]]

NUMBERS_AT_ONCE = 1 << 22  # of a table queries × keys


def prefer_blas(dim: int) -> None:
    """Multiply matrices from four queries on; faiss 1.15 waits for 128,000 / dim of them and is far slower."""
    faiss.cvar.distance_compute_blas_threshold = 4 * dim


def nearest(blocks: Iterable[tuple[Ids, Floats]], queries: Floats, k: int) -> Ids:
    """Ids [rows, at most k] of the keys in the blocks nearest to queries [rows, dim], nearest first."""
    best = _Best(len(queries), k)
    for ids, keys in blocks:
        prefer_blas(queries.shape[1])
        with one_thread(keys.size * len(queries) < PARALLEL_PRODUCTS):
            distances, places = faiss.knn(queries, keys, min(k, len(keys)))
        best.add(ids[places], distances)
    return best.ids


def nearest_allowed(entries: Entries, queries: Floats, rows: Ids, k: int, exclude: Exclude | None) -> Ids:
    """`nearest` over all entries without those that `exclude` names; −1 where fewer are left. Slow but sure.

    Args:
        rows: the queries' numbers for `exclude`  # [len(queries)]
    """
    best = _Best(len(queries), k)
    for ids, keys in key_blocks(entries, max(1, NUMBERS_AT_ONCE // max(len(queries), entries.dim))):
        prefer_blas(entries.dim)
        table = np.broadcast_to(ids, (len(queries), len(ids)))
        distances = faiss.pairwise_distances(queries, keys)  # [rows, block]
        if exclude is not None:
            distances[exclude(table, rows)] = np.inf
        best.add(table, distances)
    return np.where(np.isinf(best.distances), -1, best.ids)


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
