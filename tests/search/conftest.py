"""Stores in memory, and search done the slow way to compare with."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import ConfigFile, Entries
from knnmt.datastore.index_record import FIX
from knnmt.search import IndexConfig, Neighbours


@dataclass
class MemorySegment:
    """What search uses of a segment."""

    number: int
    keys: Any  # fp16 [n, dim]
    values: Any  # int32 [n]
    confidence: Any  # float32 [n]
    sentence: Any  # uint32 [n]

    @property
    def name(self) -> str:
        return f"{self.number:06d}"

    @property
    def path(self) -> Path:
        return Path("memory/segments") / self.name

    @property
    def record(self) -> SimpleNamespace:
        return SimpleNamespace(checksum=hashlib.blake2b(self.keys.tobytes()).hexdigest())

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def ids(self) -> Any:
        return (self.number << 32) + np.arange(len(self))


class MemoryStore:
    """What search uses of a store, or of a view where there is a mask."""

    def __init__(
        self, segments: Sequence[MemorySegment], index_directory: Path | None = None, mask: dict[str, Any] | None = None
    ) -> None:
        self.path = Path("memory")
        self.model = SimpleNamespace(vocab_size=1000)
        self.segments = tuple(segments)
        self.index_directory = index_directory
        self.mask = mask or {}

    @property
    def index_config(self) -> ConfigFile | None:
        return None if self.index_directory is None else ConfigFile.read(self.index_directory, FIX)

    @property
    def entry_count(self) -> int:
        return len(self.entries)

    @property
    def dim(self) -> int:
        return int(self.segments[0].keys.shape[1])

    def column(self, name: str) -> Any:
        """Of the live rows."""
        every = slice(None)
        return np.concatenate([getattr(each, name)[self.mask.get(each.name, every)] for each in self.segments])

    @property
    def entries(self) -> Entries:
        return Entries(self.segments, self.mask)  # type: ignore[arg-type]


def clustered(random: np.random.Generator, count: int, dim: int, centres: int = 40) -> Any:
    """Keys in clusters of different sizes, in half precision."""
    where = random.normal(size=(centres, dim)) * 3
    share = random.dirichlet(np.ones(centres))
    return (where[random.choice(centres, count, p=share)] + random.normal(size=(count, dim))).astype(np.float16)


def make_segment(number: int, keys: Any, sentence_length: int = 7) -> MemorySegment:
    random = np.random.default_rng(number)
    count = len(keys)
    return MemorySegment(
        number,
        keys,
        random.integers(1, 1000, count).astype(np.int32),
        -random.exponential(size=count).astype(np.float32),
        (np.arange(count) // sentence_length).astype(np.uint32),
    )


def naive(store: MemoryStore, queries: Any, k: int, leave_out: Callable[[int, int], bool] | None = None) -> Any:
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


def assert_nearest(
    store: MemoryStore, queries: Any, found: Any, leave_out: Callable[[int, int], bool] | None = None
) -> None:
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
    store: MemoryStore, found: Neighbours, queries: Any, k: int, leave_out: Callable[[int, int], bool] | None = None
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


@pytest.fixture(scope="session")
def toolbox() -> SimpleNamespace:
    """Test modules are imported apart from each other and see no siblings."""
    return SimpleNamespace(
        MemorySegment=MemorySegment,
        MemoryStore=MemoryStore,
        clustered=clustered,
        make_segment=make_segment,
        naive=naive,
        assert_nearest=assert_nearest,
        assert_found=assert_found,
        read_config=read_config,
    )


@pytest.fixture(scope="session")
def large_store(toolbox: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """Two segments of 20,000 entries in all with an IVF index over both; shared, so leave its files alone."""
    from knnmt.search import build_index

    keys = clustered(np.random.default_rng(0), 20_000, 32)
    segments = [make_segment(3, keys[:15_000]), make_segment(8, keys[15_000:])]
    directory = tmp_path_factory.mktemp("large") / "index"
    store = MemoryStore(segments, directory)
    build_index(store.entries, directory, "ivf")
    return store


@pytest.fixture
def small_store(toolbox: SimpleNamespace) -> MemoryStore:
    """Three segments of 300 entries in all, no index."""
    keys = clustered(np.random.default_rng(1), 300, 16, centres=5)
    return MemoryStore([make_segment(n, part) for n, part in ((1, keys[:120]), (2, keys[120:130]), (9, keys[130:]))])
