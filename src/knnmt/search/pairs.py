"""The pairs of several segments, addressed by id."""

from collections.abc import Iterator, Sequence
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from knnmt.datastore import Segment
from knnmt.datastore.segment import MEND, finite_half
from knnmt.errors import StoreError
from knnmt.search.threads import one_thread

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

ROW_BITS = 32  # a pair's id is segment number << ROW_BITS | row
ROW_MASK = (1 << ROW_BITS) - 1


class Pairs:
    """Reads keys from the memory maps of the segments, as float32; makes no copy of a segment."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        """Segments that have a row at least; all of one key size."""
        self.segments = tuple(segments)
        self.dim = int(self.segments[0].keys.shape[1])
        self.starts = np.cumsum([0, *(len(segment) for segment in self.segments)])  # [segments + 1]
        # numpy converts fp16 one number at a time, faiss eight at once.
        self._half = faiss.ScalarQuantizer(self.dim, faiss.ScalarQuantizer.QT_fp16)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def ids(self, ordinals: Ids) -> Ids:
        """Ids [n] of the pairs at places [n] of the segments laid end to end."""
        segment = np.searchsorted(self.starts, ordinals, side="right") - 1
        numbers = np.array([each.number for each in self.segments], dtype=np.int64)
        ids: Ids = (numbers[segment] << ROW_BITS) | (ordinals - self.starts[segment])
        return ids

    def keys(self, ids: Ids) -> Floats:
        """float32 [n, dim] for ids [n]. Raises IndexError for an id that is not there."""
        return self._float32(self._gather([segment.keys for segment in self.segments], ids))

    def sentences(self, ids: Ids) -> Ids:
        """Which sentence each of the pairs belongs to, as segment number << 32 | sentence; ids of any shape."""
        rows = self._gather([segment.sentence for segment in self.segments], ids.reshape(-1)).reshape(ids.shape)
        return (ids & ~ROW_MASK) | rows.astype(np.int64)

    def blocks(self, size: int) -> Iterator[tuple[Ids, Floats]]:
        """All pairs in order: ids [at most size] and keys float32 [at most size, dim]."""
        for segment in self.segments:
            for start in range(0, len(segment), size):
                half = segment.keys[start : start + size]
                if not finite_half(half):
                    raise StoreError(f"damaged: {segment.path / 'keys.npy'} holds numbers that are not finite; {MEND}")
                keys = self._float32(half)
                yield (segment.number << ROW_BITS) + np.arange(start, start + len(keys)), keys

    def _float32(self, keys: npt.NDArray[np.float16]) -> Floats:
        with one_thread():
            decoded: Floats = self._half.decode(np.ascontiguousarray(keys).view(np.uint8))
        return decoded

    def _gather(self, columns: Sequence[npt.NDArray[Any]], ids: Ids) -> npt.NDArray[Any]:
        if len(columns) == 1:
            # Segments are 2**32 apart, so that another segment's id is never a row of this one.
            return np.take(columns[0], ids - (self.segments[0].number << ROW_BITS), axis=0)
        numbers = ids >> ROW_BITS
        gathered = np.empty((len(ids), *columns[0].shape[1:]), dtype=columns[0].dtype)
        found = 0
        for segment, column in zip(self.segments, columns, strict=True):
            here = np.flatnonzero(numbers == segment.number)
            gathered[here] = np.take(column, ids[here] & ROW_MASK, axis=0)
            found += len(here)
        if found != len(ids):
            raise IndexError("an id names a segment that is not there")
        return gathered
