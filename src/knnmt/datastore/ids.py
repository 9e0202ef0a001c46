"""The id of an entry: its segment's number and its row there, in one signed 64-bit integer; −1 means no entry."""

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

_ROW_BITS = 32
_ROWS = (1 << _ROW_BITS) - 1


def first_id(number: int) -> int:
    """The id of row 0 of the segment with that number; the ids of the other rows follow it."""
    return number << _ROW_BITS


def join_ids(numbers: Ids, rows: Ids) -> Ids:
    """Segment numbers [...] and rows [...] → ids [...]."""
    ids: Ids = (numbers << _ROW_BITS) | rows
    return ids


def split_ids(ids: Ids) -> tuple[Ids, Ids]:
    """Ids [...] → segment numbers [...] and rows [...]; the number is −1 where the id is −1."""
    return ids >> _ROW_BITS, ids & _ROWS
