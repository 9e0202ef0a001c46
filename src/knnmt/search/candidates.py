"""What indexes propose, and its ranking by their own estimates of the distances."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from knnmt.datastore import Ids
from knnmt.search.keys import Floats


class Candidates(NamedTuple):
    """Entries that may be near, nearest first by the estimates of the index that proposes them.

    Attributes:
        ids: int64 [rows, m]; −1 where there are no more
        estimates: float32 [rows, m], of the squared L2 distances; meaningless where the id is −1
    """

    ids: Ids
    estimates: Floats

    def without(self, left_out: npt.NDArray[np.bool_]) -> Self:
        """With −1 in place of the ids where the mask [rows, m] is True."""
        return self._replace(ids=np.where(left_out, -1, self.ids))

    def first(self, k: int) -> Self:
        """Only the first k of each row that have an id."""
        return self.without(np.cumsum(self.ids >= 0, axis=1) > k)


def nearest_by_estimate(proposed: Sequence[Candidates], k: int) -> tuple[Ids, Floats]:
    """The k candidates with the lowest estimates: ids and estimates [rows, k], padded with −1 and +inf.

    Ties are ordered by id. An estimate below 0 counts as 0.
    """
    ids = np.concatenate([each.ids for each in proposed], axis=1)
    estimates = np.maximum(np.concatenate([each.estimates for each in proposed], axis=1), np.float32(0))
    estimates[ids < 0] = np.inf
    return in_order(ids, estimates, np.lexsort((ids, estimates), axis=1), k)


def in_order(ids: Ids, distances: Floats, order: npt.NDArray[np.intp], k: int) -> tuple[Ids, Floats]:
    """The first k in the order [rows, m]: ids and distances [rows, k], padded with −1 and +inf."""
    order = order[:, :k]
    ids, distances = np.take_along_axis(ids, order, axis=1), np.take_along_axis(distances, order, axis=1)
    if order.shape[1] < k:
        missing = ((0, 0), (0, k - order.shape[1]))
        return np.pad(ids, missing, constant_values=-1), np.pad(distances, missing, constant_values=np.inf)
    return ids, distances
