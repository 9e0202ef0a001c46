import numpy as np
import pytest
from memory_store import Mask, MemorySegment, MemoryStore, assert_nearest, naive
from tolerances import DISTANCE, SUM_OF_SQUARES

from knnmt.datastore import Entries, Ids
from knnmt.search import exact
from knnmt.search.exact import closest, nearest, nearest_allowed, squared_distances
from knnmt.search.keys import key_blocks


@pytest.mark.parametrize("rows", [1, 3, 50])  # below and above where BLAS takes over
@pytest.mark.parametrize("block", [5, 1000])
def test_nearest_is_what_sorting_everything_gives(small_store: MemoryStore, rows: int, block: int) -> None:
    queries = np.random.default_rng(4).normal(size=(rows, 16)).astype(np.float32)
    found = nearest(key_blocks(small_store.entries, block), queries, 11)
    assert found.ids.shape == (rows, 11)
    assert_nearest(small_store, queries, found.ids)
    np.testing.assert_allclose(found.estimates, naive(small_store, queries, 11)[1], **DISTANCE)


@pytest.mark.parametrize("numbers", [200, 1 << 22])
def test_nearest_allowed_leaves_out_what_it_is_told_row_by_row(
    small_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, numbers: int
) -> None:
    monkeypatch.setattr(exact, "TABLE_NUMBERS", numbers)
    queries = np.random.default_rng(5).normal(size=(6, 16)).astype(np.float32)

    def exclude(ids: Ids, rows: Ids) -> Mask:
        left_out: Mask = (ids % 6 != rows[:, None]) | (ids >> 32 == 2)
        return left_out

    found = nearest_allowed(Entries(small_store.segments), queries, np.arange(6), 60, exclude)
    assert_nearest(small_store, queries, found, lambda row, entry: entry % 6 != row or entry >> 32 == 2)
    assert (found[:, -1] == -1).all()
    assert (found[:, 40] >= 0).all()


@pytest.mark.parametrize("numbers", [200, 1 << 22])
def test_nearest_allowed_asks_by_the_numbers_it_is_given(
    small_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, numbers: int
) -> None:
    """Its queries may be some of many: `exclude` knows them by their own numbers, in every block."""
    monkeypatch.setattr(exact, "TABLE_NUMBERS", numbers)
    queries = np.random.default_rng(6).normal(size=(3, 16)).astype(np.float32)
    numbered = np.array([7, 2, 5])
    asked = set()

    def exclude(ids: Ids, rows: Ids) -> Mask:
        asked.add(tuple(rows.tolist()))
        left_out: Mask = ids % 8 != rows[:, None]
        return left_out

    found = nearest_allowed(Entries(small_store.segments), queries, numbered, 9, exclude)
    assert_nearest(small_store, queries, found, lambda row, entry: entry % 8 != numbered[row])
    assert asked == {(7, 2, 5)}
    everything = nearest_allowed(Entries(small_store.segments), queries, numbered, 9, None)
    assert_nearest(small_store, queries, everything)


@pytest.mark.parametrize("at_once", [1, 500, 1 << 20])
def test_distances_are_those_of_double_precision(
    small_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(exact, "GATHERED_NUMBERS", at_once)
    random = np.random.default_rng(2)
    queries = random.normal(size=(9, 16)).astype(np.float32)
    rows = random.integers(0, 300, (9, 12))
    ids = small_store.column("ids")[rows]
    ids[3, 4] = ids[8, 0] = -1
    keys = small_store.column("keys")[rows].astype(np.float64)
    expected = ((keys - queries[:, None]) ** 2).sum(2)
    expected[3, 4] = expected[8, 0] = np.inf
    found = squared_distances(Entries(small_store.segments), queries, ids)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=SUM_OF_SQUARES)


def test_far_from_the_origin_no_digit_is_lost() -> None:
    """‖q‖² − 2q·h + ‖h‖² would be wrong in the first digit here."""
    random = np.random.default_rng(3)
    keys = (2000 + random.integers(-3, 4, (50, 8))).astype(np.float16)
    queries = (2000 + random.integers(-3, 4, (5, 8))).astype(np.float32)
    entries = Entries([MemorySegment(1, keys)])
    ids = np.tile(entries.ids(np.arange(50)), (5, 1))
    expected = ((keys.astype(np.int64) - queries[:, None].astype(np.int64)) ** 2).sum(2)
    assert (squared_distances(entries, queries, ids) == expected).all()


def test_closest_breaks_ties_by_id_and_pads() -> None:
    keys = np.array([[1, 0], [0, 1], [3, 0], [0, -1], [-1, 0]], dtype=np.float16)
    entries = Entries([MemorySegment(4, keys)])
    first = 4 << 32
    candidates = np.array([[first + 4, first + 2, -1, first, first + 3, first + 1], [-1, -1, first + 2, -1, -1, -1]])
    ids, distances = closest(entries, np.zeros((2, 2), dtype=np.float32), candidates, 3)
    assert (ids - first).tolist() == [[0, 1, 3], [2, -1 - first, -1 - first]]
    assert distances.tolist() == [[1, 1, 1], [9, np.inf, np.inf]]
    ids, distances = closest(entries, np.zeros((2, 2), dtype=np.float32), candidates, 8)
    assert ids.shape == distances.shape == (2, 8)
    assert (ids[0, 5:] == -1).all()
    assert np.isinf(distances[0, 5:]).all()
