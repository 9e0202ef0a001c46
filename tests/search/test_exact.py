import numpy as np
import pytest

from knnmt.datastore import Entries
from knnmt.search import exact
from knnmt.search.exact import nearest, nearest_allowed


@pytest.mark.parametrize("rows", [1, 3, 50])  # below and above where BLAS takes over
@pytest.mark.parametrize("block", [5, 1000])
def test_nearest_is_what_sorting_everything_gives(small_store, toolbox, rows, block):
    queries = np.random.default_rng(4).normal(size=(rows, 16)).astype(np.float32)
    found = nearest(Entries(small_store.segments).blocks(block), queries, 11)
    assert found.shape == (rows, 11)
    toolbox.assert_nearest(small_store, queries, found)


@pytest.mark.parametrize("numbers", [200, 1 << 22])
def test_nearest_allowed_leaves_out_what_it_is_told_row_by_row(small_store, toolbox, monkeypatch, numbers):
    monkeypatch.setattr(exact, "NUMBERS_AT_ONCE", numbers)
    queries = np.random.default_rng(5).normal(size=(6, 16)).astype(np.float32)

    def exclude(ids, rows):
        return (ids % 6 != rows[:, None]) | (ids >> 32 == 2)

    found = nearest_allowed(Entries(small_store.segments), queries, np.arange(6), 60, exclude)
    toolbox.assert_nearest(small_store, queries, found, lambda row, pair: pair % 6 != row or pair >> 32 == 2)
    assert (found[:, -1] == -1).all()
    assert (found[:, 40] >= 0).all()


@pytest.mark.parametrize("numbers", [200, 1 << 22])
def test_nearest_allowed_asks_by_the_numbers_it_is_given(small_store, toolbox, monkeypatch, numbers):
    """Its queries may be some of many: `exclude` knows them by their own numbers, in every block."""
    monkeypatch.setattr(exact, "NUMBERS_AT_ONCE", numbers)
    queries = np.random.default_rng(6).normal(size=(3, 16)).astype(np.float32)
    numbered = np.array([7, 2, 5])
    asked = set()

    def exclude(ids, rows):
        asked.add(tuple(rows.tolist()))
        return ids % 8 != rows[:, None]

    found = nearest_allowed(Entries(small_store.segments), queries, numbered, 9, exclude)
    toolbox.assert_nearest(small_store, queries, found, lambda row, pair: pair % 8 != numbered[row])
    assert asked == {(7, 2, 5)}
    everything = nearest_allowed(Entries(small_store.segments), queries, numbered, 9, None)
    toolbox.assert_nearest(small_store, queries, everything)
