"""A view is searched as if there were no other rows, whatever index there is."""

from pathlib import Path

import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, assert_found, clustered, naive, toy_model

from knnmt.corpus import Pair
from knnmt.datastore import Entries, Store, StoreWriter, verify_files
from knnmt.errors import StoreError
from knnmt.search import Searcher, build_index
from knnmt.search.ivf import IVF


@pytest.fixture(params=["no index", "flat", "ivf"])
def view(request: pytest.FixtureRequest, small_store: MemoryStore, tmp_path: Path) -> MemoryStore:
    """A third of the rows, none of the second segment, and all of the third."""
    mask = {"000001": np.arange(120) % 3 == 0, "000002": np.zeros(10, np.bool_), "000009": np.ones(170, np.bool_)}
    index = None if request.param == "no index" else tmp_path / "index"
    view = MemoryStore(small_store.segments, index, mask)
    if index is not None:
        build_index(view.entries, index, request.param)
    return view


@pytest.mark.parametrize("k", [1, 8, 250])
@pytest.mark.parametrize("tail", [None, 30, 0], ids=["no tail", "tail", "tail without live rows"])
def test_a_view_finds_live_entries_only(view: MemoryStore, small_store: MemoryStore, k: int, tail: int | None) -> None:
    """Queries are keys of entries that are left out: in the index, in exact search, and in the tail."""
    if tail is not None:
        more = MemorySegment(12, small_store.column("keys")[:40])
        mask = {**view.mask, more.name: np.arange(40) < tail}
        view = MemoryStore([*view.segments, more], view.index_directory, mask)
    searching = Searcher(view)
    for index in searching.indexes:
        if isinstance(index, IVF):
            index.probes, index.rescore = 1000, 300  # looks at everything it has
    queries = small_store.column("keys")[1:130:7].astype(np.float32)
    assert len(searching.indexes) == 1 + (bool(tail) and view.index_directory is not None)
    assert_found(view, searching.search(queries, k), queries, k)
    excluded = set(naive(view, queries, 30)[0].ravel().tolist())
    found = searching.search(queries, k, lambda ids, rows: np.isin(ids, list(excluded)))
    assert_found(view, found, queries, k, lambda row, entry: entry in excluded)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_an_index_over_all_rows_does_not_search_a_view(small_store: MemoryStore, tmp_path: Path, kind: str) -> None:
    mask = {"000001": np.arange(120) % 3 == 0}
    build_index(small_store.entries, tmp_path / "index", kind)
    with pytest.raises(StoreError, match="is not of this store's segments"):
        Searcher(MemoryStore(small_store.segments, tmp_path / "index", mask))


@pytest.mark.parametrize("kind", [None, "flat", "ivf"])
def test_a_view_on_disk(tmp_path: Path, kind: str | None) -> None:
    keys = clustered(np.random.default_rng(0), 400, 16)
    with StoreWriter(tmp_path / "store", toy_model(16)) as writer:
        staged = writer.stage("key")
        pairs = [Pair(f"Satz {n}", f"sentence {n}", "a.tsv", n + 1) for n in range(100)]
        staged.append(keys, np.arange(400), np.zeros(400), [4] * 100, pairs, {})
        plan = writer.plan(staged)
        build_index(Entries(plan.segments), index := writer.new_directory("index"), "ivf")
        store = writer.commit(plan, index=index)
        entries = Entries(store.segments, {"000001": np.arange(400) % 4 > 0})
        directory = None
        if kind is not None:
            directory = writer.new_directory("index")
            build_index(entries, directory, kind)
        store = writer.commit_view("without-starts", entries, directory)
    view = store.view("without-starts")
    found = Searcher(view).search(keys[:8].astype(np.float32), 300)
    assert (found.values % 4 > 0).all()
    assert np.unique(found.values[0]).tolist() == [n for n in range(400) if n % 4]
    assert (found.distances[[1, 2, 3, 5, 6, 7], 0] == 0).all()
    assert found.distances[[0, 4], 0].all(), "itself it does not find"
    everything = Searcher(store).search(keys[:8].astype(np.float32), 400)
    assert not everything.distances[:, 0].any(), "the store itself is as it was"
    assert verify_files(store.path) == []
    if kind == "ivf":
        for file in view.index_directory.glob("*.faiss"):  # type: ignore[union-attr]
            file.unlink()
        with pytest.raises(StoreError, match="is missing; make the view again"):
            Searcher(Store.open(tmp_path / "store").view("without-starts"), in_memory=False)
