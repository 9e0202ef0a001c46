"""Stores to search."""

import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, clustered

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
