"""Stored keys for search: converted to float32, checked to be finite; and how many threads faiss uses."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import faiss
import numpy as np
import numpy.typing as npt

from knnmt.datastore import Entries, Ids
from knnmt.datastore.ids import split_ids
from knnmt.datastore.segment import FIX, finite_half
from knnmt.errors import StoreError

Floats = npt.NDArray[np.float32]


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Limit faiss to one thread within the block, if `wanted`.

    Faiss and torch each have a thread pool. After every call the threads of one pool wait actively for a while, and
    this slows the other pool down: between the steps of a decoder, more threads cost more than they save.
    OpenMP keeps this setting per calling thread, so other threads are not affected.
    """
    before = faiss.omp_get_max_threads()
    if not wanted or before == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def prefer_blas(dim: int) -> None:
    """Make faiss use BLAS from 4 queries on; faiss 1.15 starts at 128,000 / dim queries, which is far slower."""
    faiss.cvar.distance_compute_blas_threshold = 4 * dim


def float32(keys: npt.NDArray[np.float16]) -> Floats:
    """fp16 [n, dim] → float32 [n, dim]: numpy converts one number at a time, faiss eight."""
    with one_thread():
        decoded: Floats = _half(keys.shape[1]).decode(np.ascontiguousarray(keys).view(np.uint8))
    return decoded


@cache
def _half(dim: int) -> faiss.ScalarQuantizer:
    return faiss.ScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16)


def key_blocks(entries: Entries, size: int) -> Iterator[tuple[Ids, Floats]]:
    """All entries in order: ids [at most size] and keys float32 [at most size, dim]. Raises StoreError for damage."""
    for ids, keys in entries.blocks(size):
        if not finite_half(keys):
            number = split_ids(ids)[0][0]
            segment = next(each for each in entries.segments if each.number == number)
            raise StoreError(f"damaged: {segment.path / 'keys.npy'} holds numbers that are not finite; {FIX}")
        yield ids, float32(keys)
