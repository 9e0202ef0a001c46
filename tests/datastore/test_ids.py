"""Ids against arithmetic in Python's own integers."""

import numpy as np

from knnmt.datastore.ids import first_id, join_ids, split_ids

NUMBERS = [1, 7, 123_456, 2**31 - 1]
ROWS = [0, 5, 2**32 - 1]


def test_split_is_the_inverse_of_join() -> None:
    numbers, rows = (table.astype(np.int64) for table in np.meshgrid(NUMBERS, ROWS))
    ids = join_ids(numbers, rows)
    assert ids.tolist() == [[number * 2**32 + row for number in NUMBERS] for row in ROWS]
    for found, expected in zip(split_ids(ids), (numbers, rows), strict=True):
        assert (found == expected).all()
    assert [first_id(number) for number in NUMBERS] == ids[0].tolist()


def test_no_entry_has_no_segment() -> None:
    assert split_ids(np.array([-1, first_id(3)]))[0].tolist() == [-1, 3]
