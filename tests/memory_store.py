"""Stores in memory, and search done the slow way to compare with."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import ConfigFile, Entries, Ids, ModelRecord, Segment, Store
from knnmt.datastore.file_record import FileRecord
from knnmt.datastore.index_record import FIX
from knnmt.datastore.manifest import Manifest, SegmentRecord
from knnmt.search import IndexConfig, Neighbours

Keys = npt.NDArray[np.float16]  # [n, dim]
Queries = npt.NDArray[np.float32]  # [rows, dim]
Mask = npt.NDArray[np.bool_]
LeaveOut = Callable[[int, int], bool]  # row of a query, id of an entry

VOCABULARY = 1000


class MemorySegment(Segment):
    """What search uses of a segment."""

    def __init__(self, number: int, keys: Keys, sentence_length: int = 7) -> None:
        random = np.random.default_rng(number)
        count = len(keys)
        self.number = number
        self.name = f"{number:06d}"
        self.path = Path("memory/segments") / self.name
        self.keys = keys
        self.values = random.integers(1, VOCABULARY, count).astype(np.int32)
        self.confidence = -random.exponential(size=count).astype(np.float32)
        self.sentence = (np.arange(count) // sentence_length).astype(np.uint32)
        files = {"keys.npy": FileRecord(keys.nbytes, hashlib.blake2b(keys.tobytes()).hexdigest())}
        self.record = SegmentRecord(self.name, count, int(self.sentence[-1]) + 1, files)

    @property
    def ids(self) -> Ids:
        return (self.number << 32) + np.arange(len(self))


class MemoryStore(Store):
    """What search uses of a store, or of a view where there is a mask."""

    def __init__(
        self,
        segments: Sequence[Segment],
        index_directory: Path | None = None,
        mask: Mapping[str, Mask] | None = None,
    ) -> None:
        self.path = Path("memory")
        self.mask = mask or {}
        self.entries = Entries(segments, mask)
        self.segments = self.entries.segments
        self.manifest = Manifest(toy_model(self.entries.dim))
        self._index_directory = index_directory

    @property
    def index_config(self) -> ConfigFile | None:
        return None if self._index_directory is None else ConfigFile.read(self._index_directory, FIX)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Of the live rows."""
        every = slice(None)
        return np.concatenate([getattr(each, name)[self.mask.get(each.name, every)] for each in self.segments])


def toy_model(dim: int) -> ModelRecord:
    return ModelRecord("toy", "f", "t", "output", dim, VOCABULARY, "torch", "float32", "", "de", "en", 512)


def clustered(random: np.random.Generator, count: int, dim: int, centres: int = 40) -> Keys:
    """Keys in clusters of different sizes, in half precision."""
    where = random.normal(size=(centres, dim)) * 3
    share = random.dirichlet(np.ones(centres))
    return (where[random.choice(centres, count, p=share)] + random.normal(size=(count, dim))).astype(np.float16)


def naive(
    store: MemoryStore, queries: Queries, k: int, leave_out: LeaveOut | None = None
) -> tuple[Ids, npt.NDArray[np.float64]]:
    """Ids [rows, k] and distances [rows, k] by sorting everything, in double precision."""
    ids = store.column("ids")
    keys = store.column("keys").astype(np.float64)
    found = np.full((len(queries), k), -1)
    distances = np.full((len(queries), k), np.inf)
    for row, query in enumerate(np.asarray(queries, dtype=np.float64)):
        ranked = sorted(zip(((keys - query) ** 2).sum(1).tolist(), ids.tolist(), strict=True))
        kept = [entry for entry in ranked if leave_out is None or not leave_out(row, entry[1])][:k]
        for rank, (distance, entry) in enumerate(kept):
            found[row, rank], distances[row, rank] = entry, distance
    return found, distances


def assert_nearest(store: MemoryStore, queries: Queries, found: Ids, leave_out: LeaveOut | None = None) -> None:
    """The ids are those of sorting everything; entries that rounding cannot tell apart may have changed order."""
    ids = store.column("ids")
    row_of = {entry: number for number, entry in enumerate(ids.tolist())}
    keys = store.column("keys").astype(np.float64)
    expected, distances = naive(store, queries, found.shape[1], leave_out)
    assert ((found < 0) == (expected < 0)).all()
    for row, query in enumerate(np.asarray(queries, dtype=np.float64)):
        entries = [entry for entry in found[row].tolist() if entry >= 0]
        assert len(set(entries)) == len(entries)
        assert leave_out is None or not any(leave_out(row, entry) for entry in entries)
        theirs = ((keys[[row_of[entry] for entry in entries]] - query) ** 2).sum(1)
        np.testing.assert_allclose(theirs, distances[row, : len(entries)], rtol=SUM_OF_SQUARES)


def assert_found(
    store: MemoryStore, found: Neighbours, queries: Queries, k: int, leave_out: LeaveOut | None = None
) -> None:
    """Neighbours as sorting everything gives them, with the values and confidences of the store."""
    ids = found.ids
    assert ids.shape == (len(queries), k)
    assert_nearest(store, queries, ids, leave_out)
    np.testing.assert_allclose(found.distances, naive(store, queries, k, leave_out)[1], rtol=SUM_OF_SQUARES)
    assert (found.values == np.where(ids < 0, 0, store.entries.values(ids))).all()
    assert (found.log_confidence == store.entries.log_confidence(ids)).all()
    assert [array.dtype for array in (found.ids, found.distances, found.values, found.log_confidence)] == [
        np.int64,
        np.float32,
        np.int32,
        np.float32,
    ]


def read_config(directory: Path) -> IndexConfig:
    return IndexConfig.of(ConfigFile.read(directory, FIX))
