"""The result of a search."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest entries of each query, nearest first; ties are ordered by id.

    Where fewer than k exist: id −1, distance +inf, value 0, log confidence 0.

    Args:
        ids: int64 [rows, k]
        distances: float32 [rows, k], squared L2 to the stored fp16 keys: exact, or estimated by the index
        values: int32 [rows, k], target tokens
        log_confidence: float32 [rows, k], log p_NMT of the value
    """

    ids: npt.NDArray[np.int64]
    distances: npt.NDArray[np.float32]
    values: npt.NDArray[np.int32]
    log_confidence: npt.NDArray[np.float32]

    def spread(self, rows: npt.NDArray[np.int64], count: int) -> Self:
        """Place these neighbours in the given `rows` of a result for `count` queries; the other queries have none."""
        k = self.ids.shape[1]
        spread = type(self)(
            np.full((count, k), -1, np.int64),
            np.full((count, k), np.inf, np.float32),
            np.zeros((count, k), np.int32),
            np.zeros((count, k), np.float32),
        )
        spread.ids[rows], spread.distances[rows] = self.ids, self.distances
        spread.values[rows], spread.log_confidence[rows] = self.values, self.log_confidence
        return spread

    def __getitem__(self, rows: slice) -> Self:
        """The neighbours of some of the queries."""
        return type(self)(self.ids[rows], self.distances[rows], self.values[rows], self.log_confidence[rows])
