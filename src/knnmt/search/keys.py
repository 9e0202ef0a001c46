"""Stored keys as search computes with them: in float32, and finite."""

from collections.abc import Iterator
from functools import cache

import faiss
import numpy as np
import numpy.typing as npt

from knnmt.datastore import Entries, Ids
from knnmt.datastore.ids import split_ids
from knnmt.datastore.segment import FIX, finite_half
from knnmt.errors import StoreError
from knnmt.search.threads import one_thread

Floats = npt.NDArray[np.float32]


def float32(keys: npt.NDArray[np.float16]) -> Floats:
    """fp16 [n, dim] → float32 [n, dim]: numpy converts one number at a time, faiss eight at once."""
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
