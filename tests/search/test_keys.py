from collections.abc import Iterator

import faiss
import numpy as np
import pytest
from memory_store import MemoryStore

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.search.keys import float32, key_blocks, one_thread


def test_half_precision_becomes_the_same_numbers() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 16)
    assert (float32(finite) == finite.astype(np.float32)).all()


@pytest.mark.parametrize("size", [1, 7, 120, 1000])
def test_blocks_hold_everything_once_and_in_order(small_store: MemoryStore, size: int) -> None:
    blocks = list(key_blocks(Entries(small_store.segments), size))
    assert max(len(ids) for ids, _ in blocks) <= size
    assert (np.concatenate([ids for ids, _ in blocks]) == small_store.column("ids")).all()
    assert (np.concatenate([keys for _, keys in blocks]) == small_store.column("keys").astype(np.float32)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_keys_that_are_not_finite_are_damage(small_store: MemoryStore, bad: float) -> None:
    small_store.segments[1].keys[3, 2] = bad
    with pytest.raises(
        StoreError, match=r"^damaged: memory/segments/000002/keys.npy holds numbers that are not finite"
    ):
        list(key_blocks(Entries(small_store.segments), 50))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    yield
    faiss.omp_set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_one_thread_within_and_as_before_after() -> None:
    with one_thread():
        assert faiss.omp_get_max_threads() == 1
    assert faiss.omp_get_max_threads() == 2
    with one_thread(False):
        assert faiss.omp_get_max_threads() == 2
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert faiss.omp_get_max_threads() == 2
