"""Neighbours ranked by the codes of an index, compared with sorting what was decoded from them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, Queries, assert_found, clustered, naive
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import Ids
from knnmt.errors import StoreError
from knnmt.search import Candidates, Searcher, build_index
from knnmt.search.ivfpq import IVFPQ

Decode = Callable[[MemoryStore], MemoryStore]


def exhaustive(store: MemoryStore, distances: str = "code") -> Searcher:
    """Looks at all lists."""
    searching = Searcher(store, distances=distances)
    index = searching.indexes[0]
    assert isinstance(index, IVFPQ)
    index.probes = index.faiss_index.nlist
    return searching


@pytest.fixture
def queries(pq_store: MemoryStore) -> Queries:
    """Near to stored keys."""
    keys = pq_store.column("keys")[::200].astype(np.float32)
    return keys + 0.2 * np.random.default_rng(0).normal(size=keys.shape).astype(np.float32)


@pytest.fixture
def with_tail(pq_store: MemoryStore) -> MemoryStore:
    """500 entries beside the index, some of which are nearest to some of the queries."""
    keys = clustered(np.random.default_rng(2), 500, 32)
    keys[:20] = pq_store.column("keys")[:4_000:200]
    return MemoryStore([*pq_store.segments, MemorySegment(12, keys)], pq_store.index_directory)


@pytest.mark.parametrize("k", [1, 8, 40])
@pytest.mark.parametrize("rows", [1, 30])
def test_distances_are_those_to_what_was_decoded(
    pq_store: MemoryStore, decode: Decode, queries: Queries, rows: int, k: int
) -> None:
    assert_found(decode(pq_store), exhaustive(pq_store).search(queries[:rows], k), queries[:rows], k)


def test_of_the_probed_lists_too(pq_store: MemoryStore, decode: Decode, queries: Queries) -> None:
    found = Searcher(pq_store, distances="code").search(queries, 8)
    keys = decode(pq_store).entries.keys(found.ids).astype(np.float64)
    np.testing.assert_allclose(found.distances, ((keys - queries[:, None]) ** 2).sum(2), rtol=SUM_OF_SQUARES)
    assert (np.diff(found.distances, axis=1) >= 0).all()


@pytest.mark.parametrize("kind", ["ivf", "ivfpq"])
def test_neighbours_are_mostly_those_of_exact_search(
    large_store: MemoryStore, pq_store: MemoryStore, queries: Queries, kind: str
) -> None:
    store = pq_store if kind == "ivfpq" else large_store
    near = queries if kind == "ivfpq" else store.column("keys")[::700].astype(np.float32)
    by_code = Searcher(store, distances="code").search(near, 16)
    ids = naive(store, near, 16)[0]
    hits = sum(len(set(a) & set(b)) for a, b in zip(by_code.ids.tolist(), ids.tolist(), strict=True))
    assert 0.3 < hits / ids.size < 1
    assert by_code.distances.min() >= 0
    assert (np.diff(by_code.distances, axis=1) >= 0).all()
    keys = store.entries.keys(by_code.ids).astype(np.float64)
    exact = ((keys - near[:, None]) ** 2).sum(2)
    assert by_code.distances.mean() == pytest.approx(exact.mean(), rel=0.5)
    assert (by_code.distances != exact).mean() > 0.9


def test_exact_distances_are_of_the_same_neighbours(pq_store: MemoryStore, queries: Queries) -> None:
    """The authors compute the exact distances of the k neighbours that the codes give, and look at no others."""
    by_code, exact = (Searcher(pq_store, distances=each).search(queries, 8) for each in ("code", "exact"))
    assert (np.sort(by_code.ids, axis=1) == np.sort(exact.ids, axis=1)).all()
    assert (by_code.ids != exact.ids).any()
    keys = pq_store.entries.keys(exact.ids).astype(np.float64)
    np.testing.assert_allclose(exact.distances, ((keys - queries[:, None]) ** 2).sum(2), rtol=SUM_OF_SQUARES)
    assert (np.diff(exact.distances, axis=1) >= 0).all()


def test_also_where_entries_are_left_out(pq_store: MemoryStore, queries: Queries) -> None:
    found = [
        exhaustive(pq_store, each).search(queries, 8, lambda ids, rows: ids % 3 == 0) for each in ("code", "exact")
    ]
    assert (np.sort(found[0].ids, axis=1) == np.sort(found[1].ids, axis=1)).all()


def test_equal_codes_are_ordered_by_id(pq_store: MemoryStore) -> None:
    query = pq_store.column("keys")[7:8].astype(np.float32)
    found = Searcher(pq_store, distances="code").search(query, 8)
    same = [7, 100, 101, 102, 103, 5_000, 5_001, 5_002]
    assert found.ids[0].tolist() == pq_store.column("ids")[same].tolist()
    assert (found.distances == found.distances[0, 0]).all()


def test_index_and_tail_are_merged(with_tail: MemoryStore, decode: Decode, queries: Queries) -> None:
    """Entries of the tail have exact distances."""
    found = exhaustive(with_tail).search(queries, 12)
    assert_found(decode(with_tail), found, queries, 12)
    of_tail = found.ids >> 32 == 12
    assert of_tail.any()
    assert not of_tail.all()


def test_exclusion_row_by_row(with_tail: MemoryStore, decode: Decode, queries: Queries) -> None:
    decoded = decode(with_tail)
    near = naive(decoded, queries, 60)[0]

    def exclude(ids: Ids, rows: Ids) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        return np.array([np.isin(row, left_out) for row, left_out in zip(ids, near[rows], strict=True)])

    found = exhaustive(with_tail).search(queries, 8, exclude)
    assert_found(decoded, found, queries, 8, lambda row, entry: entry in near[row])


@pytest.mark.parametrize("left", [0, 3, 20])
def test_exclusion_of_nearly_everything_ends_with_what_is_left(
    with_tail: MemoryStore, decode: Decode, queries: Queries, left: int
) -> None:
    """Every index gives all that it has, by its own estimates: none of the distances to decoded keys is exact."""
    allowed = np.random.default_rng(3).choice(with_tail.column("ids"), left, replace=False)
    searching = Searcher(with_tail, distances="code")
    found = searching.search(queries[:3], 8, lambda ids, rows: ~np.isin(ids, allowed))
    assert_found(decode(with_tail), found, queries[:3], 8, lambda row, entry: entry not in allowed)


@pytest.mark.parametrize("tail", [False, True])
def test_fewer_entries_than_k(small_store: MemoryStore, decode: Decode, tmp_path: Path, tail: bool) -> None:
    build_index(small_store.entries, tmp_path, "ivfpq")
    more = [MemorySegment(12, clustered(np.random.default_rng(4), 20, 16))] if tail else []
    store = MemoryStore([*small_store.segments, *more], tmp_path)
    queries = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    found = Searcher(store, distances="code").search(queries, 330)
    assert_found(decode(store), found, queries, 330)
    assert (found.ids[:, -10:] == -1).all()
    assert np.isposinf(found.distances[:, -10:]).all()


@pytest.mark.parametrize("k", [1, 8, 250])
def test_a_view_finds_live_entries_only(small_store: MemoryStore, decode: Decode, tmp_path: Path, k: int) -> None:
    mask = {"000001": np.arange(120) % 3 == 0, "000002": np.zeros(10, np.bool_), "000009": np.ones(170, np.bool_)}
    build_index(MemoryStore(small_store.segments, mask=mask).entries, tmp_path, "ivfpq")
    tail = MemorySegment(12, small_store.column("keys")[:40])
    view = MemoryStore([*small_store.segments, tail], tmp_path, {**mask, tail.name: np.arange(40) < 30})
    decoded = decode(view)
    queries = small_store.column("keys")[1:130:7].astype(np.float32) + np.float32(0.1)
    assert_found(decoded, Searcher(view, distances="code").search(queries, k), queries, k)
    found = Searcher(view, distances="code").search(queries, k, lambda ids, rows: ids % 5 == 0)
    assert_found(decoded, found, queries, k, lambda row, entry: entry % 5 == 0)


@pytest.mark.parametrize("kind", [None, "flat"])
def test_without_codes_distances_are_exact(small_store: MemoryStore, tmp_path: Path, kind: str | None) -> None:
    if kind is not None:
        build_index(small_store.entries, tmp_path, kind)
    store = MemoryStore(small_store.segments, None if kind is None else tmp_path)
    queries = np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32)
    searching = Searcher(store, distances="code")
    found, exact = searching.search(queries, 8), Searcher(store).search(queries, 8)
    assert (found.ids == exact.ids).all()
    assert (found.distances == exact.distances).all()
    assert searching.description == "Flat"


def test_descriptions(pq_store: MemoryStore, large_store: MemoryStore) -> None:
    name = "IVF153,PQ32,probes=32"
    assert Searcher(pq_store, in_memory=False).description == name
    assert Searcher(pq_store, in_memory=False, distances="code").description == f"{name},distances=code"
    assert Searcher(pq_store, in_memory=True, distances="code").description == f"{name},in-memory,distances=code"
    assert Searcher(large_store, distances="code").description.endswith(",distances=code")
    assert "code" not in Searcher(large_store).description


def test_other_distances_are_a_sentence(pq_store: MemoryStore) -> None:
    with pytest.raises(StoreError, match="there are no distances 'fast'; choose one of exact, code"):
        Searcher(pq_store, distances="fast")


class Wrong:
    in_memory, size, coded, rescore = True, 6_000, True, 1

    def candidates(self, queries: Queries, k: int, widen: int = 1) -> Candidates:
        shape = (len(queries), k)
        return Candidates(np.full(shape, 3 << 32), np.full(shape, np.nan, np.float32))


def test_estimates_that_are_not_numbers_are_a_sentence(
    pq_store: MemoryStore, queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching = Searcher(pq_store, distances="code")
    monkeypatch.setattr(searching, "indexes", [Wrong()])
    with pytest.raises(StoreError, match=r"gives distances that are not numbers; .*knnmt build"):
        searching.search(queries, 4)
