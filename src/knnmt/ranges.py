"""The rows of many sentences in one array."""

import numpy as np
from numpy.typing import NDArray


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1, … start + length − 1 of each range, one range after the other.  # [sum of lengths]"""
    before = np.cumsum(lengths) - lengths
    rows: NDArray[np.int64] = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return rows
