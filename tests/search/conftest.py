"""Stores to search."""

from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, clustered, read_config

from knnmt.search import build_index


@pytest.fixture(scope="session")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """Two segments of 20,000 entries in all with an IVF index over both; shared, so leave its files alone."""
    keys = clustered(np.random.default_rng(0), 20_000, 32)
    segments = [MemorySegment(3, keys[:15_000]), MemorySegment(8, keys[15_000:])]
    directory = tmp_path_factory.mktemp("large") / "index"
    store = MemoryStore(segments, directory)
    build_index(store.entries, directory, "ivf")
    return store


@pytest.fixture
def small_store() -> MemoryStore:
    """Three segments of 300 entries in all, no index."""
    keys = clustered(np.random.default_rng(1), 300, 16, centres=5)
    return MemoryStore([MemorySegment(n, part) for n, part in ((1, keys[:120]), (2, keys[120:130]), (9, keys[130:]))])


@pytest.fixture(scope="session")
def pq_store(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """Two segments of 6,000 entries in all with an IVFPQ index over both; shared, so leave its files alone."""
    keys = clustered(np.random.default_rng(2), 6_000, 32)
    keys[100:104] = keys[5_000:5_003] = keys[7]  # equal codes, in both segments
    segments = [MemorySegment(3, keys[:4_500]), MemorySegment(8, keys[4_500:])]
    directory = tmp_path_factory.mktemp("pq") / "index"
    store = MemoryStore(segments, directory)
    build_index(store.entries, directory, "ivfpq")
    return store


Decode = Callable[[MemoryStore], MemoryStore]


@pytest.fixture(scope="session")
def decode() -> Decode:
    """Makes a store without index whose keys are what the IVFPQ index of a store has kept of them.

    To search it the slow way is to search by code. Keys that the index does not cover stay as they are.
    """

    def decoded(store: MemoryStore) -> MemoryStore:
        directory = store.index_directory
        assert directory is not None
        index: Any = faiss.read_index(str(directory / "index.faiss"))
        index.set_direct_map_type(faiss.DirectMap.Hashtable)  # type: ignore[attr-defined]
        covered = read_config(directory).segments
        segments = []
        for segment in store.segments:
            keys = segment.keys.astype(np.float32)
            if segment.name in covered:
                for row in np.flatnonzero(store.mask.get(segment.name, np.ones(len(segment)))):
                    keys[row] = index.reconstruct((segment.number << 32) + int(row))
            segments.append(MemorySegment(segment.number, keys))  # type: ignore[arg-type]  # not rounded again
        return MemoryStore(segments, mask=store.mask)

    return decoded
