import numpy as np
import pytest
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import Entries
from knnmt.search import distance
from knnmt.search.distance import closest, squared_distances


@pytest.mark.parametrize("at_once", [1, 500, 1 << 20])
def test_distances_are_those_of_double_precision(small_store, monkeypatch, at_once):
    monkeypatch.setattr(distance, "NUMBERS_AT_ONCE", at_once)
    random = np.random.default_rng(2)
    queries = random.normal(size=(9, 16)).astype(np.float32)
    places = random.integers(0, 300, (9, 12))
    ids = small_store.column("ids")[places]
    ids[3, 4] = ids[8, 0] = -1
    keys = small_store.column("keys")[places].astype(np.float64)
    expected = ((keys - queries[:, None]) ** 2).sum(2)
    expected[3, 4] = expected[8, 0] = np.inf
    found = squared_distances(Entries(small_store.segments), queries, ids)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=SUM_OF_SQUARES)


def test_far_from_the_origin_no_digit_is_lost(toolbox):
    """‖q‖² − 2q·h + ‖h‖² would be wrong in the first digit here."""
    random = np.random.default_rng(3)
    keys = (2000 + random.integers(-3, 4, (50, 8))).astype(np.float16)
    queries = (2000 + random.integers(-3, 4, (5, 8))).astype(np.float32)
    entries = Entries([toolbox.make_segment(1, keys)])
    ids = np.tile(entries.ids(np.arange(50)), (5, 1))
    expected = ((keys.astype(np.int64) - queries[:, None].astype(np.int64)) ** 2).sum(2)
    assert (squared_distances(entries, queries, ids) == expected).all()


def test_closest_breaks_ties_by_id_and_pads(toolbox):
    keys = np.array([[1, 0], [0, 1], [3, 0], [0, -1], [-1, 0]], dtype=np.float16)
    entries = Entries([toolbox.make_segment(4, keys)])
    first = 4 << 32
    candidates = np.array([[first + 4, first + 2, -1, first, first + 3, first + 1], [-1, -1, first + 2, -1, -1, -1]])
    ids, distances = closest(entries, np.zeros((2, 2), dtype=np.float32), candidates, 3)
    assert (ids - first).tolist() == [[0, 1, 3], [2, -1 - first, -1 - first]]
    assert distances.tolist() == [[1, 1, 1], [9, np.inf, np.inf]]
    ids, distances = closest(entries, np.zeros((2, 2), dtype=np.float32), candidates, 8)
    assert ids.shape == distances.shape == (2, 8)
    assert (ids[0, 5:] == -1).all()
    assert np.isinf(distances[0, 5:]).all()
