import numpy as np
import pytest
from memory_store import MemoryStore, assert_nearest

from knnmt.datastore import Entries
from knnmt.search import flat
from knnmt.search.flat import Flat


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("rows", [1, 40])
def test_the_nearest_are_among_the_candidates(
    small_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, resident: bool, rows: int
) -> None:
    if not resident:
        monkeypatch.setattr(flat, "FLAT_RESIDENT_BYTES", 0)
        monkeypatch.setattr(flat, "BLOCK_NUMBERS", 16 * 33)
    index = Flat(Entries(small_store.segments))
    assert (index.resident is not None) == resident
    queries = np.random.default_rng(6).normal(size=(rows, 16)).astype(np.float32)
    candidates = index.candidates(queries, 10).ids
    assert_nearest(small_store, queries, candidates)
    assert candidates.shape[1] >= 10


def test_candidates_never_exceed_the_entries(small_store: MemoryStore) -> None:
    index = Flat(Entries(small_store.segments))
    candidates = index.candidates(np.zeros((2, 16), dtype=np.float32), 100, widen=16).ids
    assert (np.sort(candidates, axis=1) == small_store.column("ids")).all()
