import numpy as np

from knnmt.search.candidates import Candidates, nearest_by_estimate

INDEX = Candidates(np.array([[7, 3, 9, -1], [4, -1, -1, -1]]), np.array([[1, 2, 2, 0], [-3, 9, 0, 0]], np.float32))
TAIL = Candidates(np.array([[20, 21], [-1, 22]]), np.array([[2, 0], [0, 0]], np.float32))


def test_the_lowest_estimates_of_all_indexes_first_and_ties_by_id() -> None:
    ids, distances = nearest_by_estimate([TAIL, INDEX], 4)
    assert ids.tolist() == [[21, 7, 3, 9], [4, 22, -1, -1]]
    assert distances.tolist() == [[0, 1, 2, 2], [0, 0, np.inf, np.inf]]
    assert [array.dtype for array in (ids, distances)] == [np.int64, np.float32]


def test_fewer_candidates_than_neighbours_are_padded() -> None:
    ids, distances = nearest_by_estimate([TAIL], 4)
    assert ids.tolist() == [[21, 20, -1, -1], [22, -1, -1, -1]]
    assert distances.tolist() == [[0, 2, np.inf, np.inf], [0, np.inf, np.inf, np.inf]]


def test_candidates_can_be_left_out() -> None:
    left = INDEX.without(np.isin(INDEX.ids, [3, 4]))
    assert left.ids.tolist() == [[7, -1, 9, -1], [-1, -1, -1, -1]]
    assert left.first(1).ids.tolist() == [[7, -1, -1, -1], [-1, -1, -1, -1]]
    assert left.first(2).ids.tolist() == left.ids.tolist()
    assert INDEX.ids[0, 1] == 3
