import numpy as np
import pytest
from memory_store import Keys, MemorySegment, clustered

from knnmt.datastore import Entries, Ids
from knnmt.search import lists
from knnmt.search.lists import cluster


def test_centres_are_where_the_keys_are() -> None:
    """More lists than there are heaps: every heap has a centre near its middle, and no centre is elsewhere."""
    random = np.random.default_rng(0)
    heaps = 20 * random.normal(size=(10, 16))
    keys = (np.repeat(heaps, 100, axis=0) + 0.1 * random.normal(size=(1000, 16))).astype(np.float16)
    centres = cluster(Entries([MemorySegment(1, keys[:400]), MemorySegment(2, keys[400:])]), 30)
    assert centres.shape == (30, 16)
    distances = ((centres[:, None] - heaps) ** 2).sum(2)
    assert (distances.min(axis=0) < 1).all()
    assert (distances.min(axis=1) < 1).all()


def test_seeded_and_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = Entries([MemorySegment(1, clustered(np.random.default_rng(1), 2_000, 8))])
    read: list[int] = []
    keys = entries.keys

    def counted(ids: Ids) -> Keys:
        read.append(len(ids))
        return keys(ids)

    monkeypatch.setattr(entries, "keys", counted)
    first, second = cluster(entries, 20), cluster(entries, 20)
    assert (first == second).all()
    assert read == [640, 640]
    monkeypatch.setattr(lists, "SEED", 2)
    assert (cluster(entries, 20) != first).any()
