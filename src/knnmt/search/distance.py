"""Exact squared distances of proposed entries."""

import numpy as np

from knnmt.datastore import Entries, Ids
from knnmt.search.keys import Floats, float32

NUMBERS_AT_ONCE = 1 << 20  # float32 numbers gathered at a time: 4 MB, which stay in the processor's cache


class DamagedKeyError(Exception):
    """A stored key that is not a vector of numbers."""


def squared_distances(entries: Entries, queries: Floats, ids: Ids) -> Floats:
    """Squared L2 of queries [rows, dim] to the stored keys of ids [rows, m]; float32 [rows, m].

    By the differences themselves: ‖q‖² − 2q·h + ‖h‖² loses the last digits where entries are near.
    +inf where the id is −1.
    """
    rows, width = ids.shape
    distances = np.empty((rows, width), dtype=np.float32)
    present = np.where(ids < 0, entries.ids(np.zeros(1, dtype=np.int64)), ids)  # any entry stands in for none
    step = max(1, NUMBERS_AT_ONCE // max(1, width * entries.dim))
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
    # In the order of the file: neighbours on disk are read together, and ties come out by id whoever found them.
    candidates = np.sort(candidates, axis=1)
    distances = squared_distances(entries, queries, candidates)
    if not (np.isfinite(distances) | (candidates < 0)).all():
        raise DamagedKeyError
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    ids, distances = np.take_along_axis(candidates, order, axis=1), np.take_along_axis(distances, order, axis=1)
    if order.shape[1] < k:
        missing = ((0, 0), (0, k - order.shape[1]))
        return np.pad(ids, missing, constant_values=-1), np.pad(distances, missing, constant_values=np.inf)
    return ids, distances
