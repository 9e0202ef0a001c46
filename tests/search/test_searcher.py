import json
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from memory_store import Mask, MemorySegment, MemoryStore, Queries, assert_found, clustered, naive, toy_model
from tolerances import SUM_OF_SQUARES

from knnmt.corpus import Pair
from knnmt.datastore import Entries, Ids, Store, StoreWriter
from knnmt.errors import StoreError
from knnmt.search import Candidates, Exclude, IndexConfig, Searcher, build_index, describe_index, parameters, searcher
from knnmt.search.exact import nearest_allowed
from knnmt.search.ivf import IVF


def random_queries(rows: int, dim: int, seed: int = 0) -> Queries:
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3, 30])
@pytest.mark.parametrize("k", [1, 8])
def test_without_index_it_is_exact_over_several_segments(small_store: MemoryStore, rows: int, k: int) -> None:
    queries = random_queries(rows, 16)
    assert_found(small_store, Searcher(small_store).search(queries, k), queries, k)


def test_fewer_entries_than_k(small_store: MemoryStore) -> None:
    queries = random_queries(2, 16)
    found = Searcher(small_store).search(queries, 310)
    assert_found(small_store, found, queries, 310)
    assert (found.ids[:, 299] >= 0).all()
    assert (found.ids[:, 300:] == -1).all()
    assert np.isposinf(found.distances[:, 300:]).all()
    assert (found.values[:, 300:] == 0).all()
    assert (found.log_confidence[:, 300:] == 0).all()


def test_no_queries(small_store: MemoryStore) -> None:
    found = Searcher(small_store).search(np.empty((0, 16), dtype=np.float32), 4)
    assert found.ids.shape == found.values.shape == (0, 4)


def test_rows_can_be_taken_out(small_store: MemoryStore) -> None:
    found = Searcher(small_store).search(random_queries(5, 16), 4)
    part = found[1:3]
    assert (part.ids == found.ids[1:3]).all()
    assert part.values.shape == part.log_confidence.shape == part.distances.shape == (2, 4)


def test_queries_of_another_size_are_a_mistake(small_store: MemoryStore) -> None:
    with pytest.raises(ValueError, match="16"):
        Searcher(small_store).search(random_queries(2, 8), 4)
    with pytest.raises(ValueError, match="at least 1"):
        Searcher(small_store).search(random_queries(2, 16), 0)


@pytest.mark.parametrize(("share", "held"), [(1 / 8, True), (0.0, False)])
def test_the_index_is_held_in_memory_where_it_fits(
    large_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, share: float, held: bool
) -> None:
    monkeypatch.setattr(parameters, "HELD_SHARE", share)
    assert Searcher(large_store).indexes[0].in_memory == held
    assert Searcher(large_store).description.endswith(",in-memory") == held
    for asked in (True, False):
        assert Searcher(large_store, asked).indexes[0].in_memory == asked


def test_index_finds_nearly_all_and_rescores_exactly(large_store: MemoryStore) -> None:
    queries = large_store.column("keys")[::500].astype(np.float32) + 0.1 * random_queries(40, 32)
    found = Searcher(large_store).search(queries, 16)
    ids, _ = naive(large_store, queries, 16)
    hits = sum(len(set(a) & set(b)) for a, b in zip(found.ids.tolist(), ids.tolist(), strict=True))
    assert hits / ids.size >= 0.93
    keys = Entries(large_store.segments).keys(found.ids.reshape(-1)).reshape(40, 16, 32).astype(np.float64)
    np.testing.assert_allclose(found.distances, ((keys - queries[:, None]) ** 2).sum(2), rtol=SUM_OF_SQUARES)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert (found.values == large_store.entries.values(found.ids)).all()


def ivf_of(searching: Searcher) -> IVF:
    index = searching.indexes[0]
    assert isinstance(index, IVF)
    return index


@pytest.fixture
def with_tail(large_store: MemoryStore) -> MemoryStore:
    """500 entries beside an index."""
    tail = MemorySegment(12, clustered(np.random.default_rng(0), 500, 32))
    return MemoryStore([*large_store.segments, tail], large_store.index_directory)


@pytest.fixture
def exhaustive(with_tail: MemoryStore) -> Searcher:
    """Its index looks at everything it covers."""
    searching = Searcher(with_tail)
    index = ivf_of(searching)
    index.probes = index.faiss_index.nlist
    index.rescore = 200
    return searching


def test_index_and_tail_are_merged(exhaustive: Searcher, with_tail: MemoryStore) -> None:
    queries = np.concatenate([with_tail.segments[2].keys[:5], with_tail.segments[0].keys[:5]]) + 0.1 * random_queries(
        10, 32
    )
    found = exhaustive.search(queries, 12)
    assert_found(with_tail, found, queries, 12)
    sources = set((found.ids >> 32).ravel().tolist())
    assert 12 in sources
    assert len(sources) > 1


def test_exclusion_row_by_row(exhaustive: Searcher, with_tail: MemoryStore) -> None:
    """Each row leaves out another third of the entries, and one row everything near."""
    queries = random_queries(4, 32)
    near = set(naive(with_tail, queries[3:], 900)[0].ravel().tolist())

    def exclude(ids: Ids, rows: Ids) -> Mask:
        mask: Mask = ids % 3 == rows[:, None]
        mask[rows == 3] = np.isin(ids[rows == 3], list(near))
        return mask

    found = exhaustive.search(queries, 8, exclude)
    assert_found(
        with_tail,
        found,
        queries,
        8,
        lambda row, entry: entry in near if row == 3 else entry % 3 == row,
    )


def test_exclusion_looks_farther_until_there_are_enough(large_store: MemoryStore) -> None:
    """The usual probes and candidates would not do: the nearest 600 are left out."""
    searching = Searcher(large_store)
    queries = large_store.column("keys")[:3].astype(np.float32)
    near = naive(large_store, queries, 600)[0]
    widths: list[int] = []

    def exclude(ids: Ids, rows: Ids) -> Mask:
        widths.append(ids.shape[1])
        return np.array([np.isin(row, left_out) for row, left_out in zip(ids, near[rows], strict=True)])

    found = searching.search(queries, 8, exclude)
    assert (found.ids >= 0).all()
    assert not any(set(a) & set(b) for a, b in zip(found.ids.tolist(), near.tolist(), strict=True))
    assert all(later == 2 * earlier for earlier, later in pairwise(widths[:4]))
    assert len(widths) > 1


@pytest.mark.parametrize("k", [1, 8])
def test_a_tail_does_not_stand_in_for_what_the_index_has(small_store: MemoryStore, tmp_path: Path, k: int) -> None:
    """All that the index proposes at first is left out; the tail has enough, but farther away."""
    build_index(small_store.entries, tmp_path / "index", "flat")
    tail = MemorySegment(12, np.full((20, 16), 50, dtype=np.float16))
    store = MemoryStore([*small_store.segments, tail], tmp_path / "index")
    queries = small_store.column("keys")[:3].astype(np.float32)
    near = naive(store, queries, 60)[0]
    found = Searcher(store).search(queries, k, lambda ids, rows: (ids[:, :, None] == near[rows][:, None]).any(2))
    assert_found(store, found, queries, k, lambda row, entry: entry in near[row])


def test_rows_that_have_enough_are_not_asked_again(
    exhaustive: Searcher, with_tail: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`exclude` knows which queries it is asked for, and exact search is for those that still lack neighbours."""
    ivf_of(exhaustive).rescore = 20  # however far it looks, half of the entries are no candidates
    queries = random_queries(5, 32)
    allowed = np.random.default_rng(2).choice(with_tail.column("ids"), 8, replace=False)
    asked: list[list[int]] = []
    exact: list[list[int]] = []

    def exclude(ids: Ids, rows: Ids) -> Mask:
        assert ids.shape[0] == len(rows)
        asked.append(rows.tolist())
        left_out: Mask = (rows[:, None] % 2 == 1) & ~np.isin(ids, allowed)
        return left_out

    def counted(entries: Entries, of: Queries, rows: Ids, k: int, exclude: Exclude | None) -> Ids:
        exact.append(rows.tolist())
        assert (of == queries[rows]).all()
        return nearest_allowed(entries, of, rows, k, exclude)

    monkeypatch.setattr(searcher, "nearest_allowed", counted)
    found = exhaustive.search(queries, 8, exclude)
    assert_found(with_tail, found, queries, 8, lambda row, entry: row % 2 == 1 and entry not in allowed)
    assert asked[:2] == [[0, 1, 2, 3, 4]] * 2, "what the index proposes, and the tail"
    assert {tuple(rows) for rows in asked[2:]} == {(1, 3)}
    assert exact == [[1, 3]]


@pytest.mark.parametrize("left", [0, 3, 20])
def test_exclusion_of_nearly_everything_ends_with_what_is_left(large_store: MemoryStore, left: int) -> None:
    queries = random_queries(2, 32)
    allowed = np.random.default_rng(3).choice(large_store.column("ids"), left, replace=False)
    found = Searcher(large_store).search(queries, 8, lambda ids, rows: ~np.isin(ids, allowed))
    assert_found(large_store, found, queries, 8, lambda row, entry: entry not in allowed)


def test_candidates_of_too_few_lists_are_made_up_for(large_store: MemoryStore) -> None:
    """One probed list holds fewer entries than are asked for; the store has more."""
    searching = Searcher(large_store)
    index = ivf_of(searching)
    index.probes = 1
    sizes = [index.faiss_index.get_list_size(n) for n in range(index.faiss_index.nlist)]
    found = searching.search(random_queries(3, 32), max(sizes) + 1)
    assert (found.ids >= 0).all()


def test_threads_share_a_searcher(large_store: MemoryStore) -> None:
    searching = Searcher(large_store)
    queries = [random_queries(20, 32, seed) for seed in range(4)]
    expected = [searching.search(each, 8).ids for each in queries]
    wrong: list[int] = []

    def work(number: int) -> None:
        found = [searching.search(queries[number], 8).ids for _ in range(10)]
        wrong.extend(number for ids in found if (ids != expected[number]).any())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_index_of_other_segments_is_refused(large_store: MemoryStore) -> None:
    store = MemoryStore(large_store.segments[:1], large_store.index_directory)
    with pytest.raises(StoreError, match="knnmt build"):
        Searcher(store)


def test_index_of_other_content_is_refused(small_store: MemoryStore, tmp_path: Path) -> None:
    """Segments of the same names and sizes, but in one of them a single number differs."""
    build_index(small_store.entries, tmp_path / "index", "flat")
    Searcher(MemoryStore(small_store.segments, tmp_path / "index"))
    first, second, third = small_store.segments
    keys = second.keys.copy()
    keys[3, 2] += 1
    with pytest.raises(StoreError, match=r"is not of this store's segments; .*knnmt build"):
        Searcher(MemoryStore([first, MemorySegment(2, keys), third], tmp_path / "index"))


def test_an_index_with_names_of_segments_only_is_searched(small_store: MemoryStore, tmp_path: Path) -> None:
    build_index(small_store.entries, tmp_path / "index", "flat")
    config = json.loads((tmp_path / "index/config.json").read_text())
    (tmp_path / "index/config.json").write_text(json.dumps(config | {"segments": list(config["segments"])}))
    queries = random_queries(3, 16)
    found = Searcher(MemoryStore(small_store.segments, tmp_path / "index")).search(queries, 4)
    assert_found(small_store, found, queries, 4)


def test_index_of_an_unknown_kind_is_refused(large_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searcher, "INDEX_KINDS", {})
    with pytest.raises(StoreError, match="newer"):
        Searcher(large_store)


@pytest.mark.parametrize("distances", ["exact", "code"])
def test_ids_that_no_entry_has_are_a_sentence(
    large_store: MemoryStore, monkeypatch: pytest.MonkeyPatch, distances: str
) -> None:
    searching = Searcher(large_store, distances=distances)
    for wrong in ((5 << 32) + 1, (3 << 32) + 15_000):
        monkeypatch.setattr(searching, "indexes", [Stubborn(wrong)])
        with pytest.raises(StoreError, match="knnmt build"):
            searching.search(random_queries(2, 32), 1)


class Stubborn:
    in_memory, size, coded, rescore = True, 20_000, True, 2

    def __init__(self, entry: int, estimate: float = 1.0) -> None:
        self.entry, self.estimate = entry, estimate

    def candidates(self, queries: Queries, k: int, widen: int = 1) -> Candidates:
        shape = (len(queries), k)
        return Candidates(np.full(shape, self.entry), np.full(shape, self.estimate, np.float32))


def test_missing_index_is_refused(large_store: MemoryStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="knnmt build"):
        Searcher(MemoryStore(large_store.segments, tmp_path / "nowhere"))


def test_descriptions(large_store: MemoryStore, small_store: MemoryStore) -> None:
    assert large_store.index_config is not None
    config = IndexConfig.of(large_store.index_config)
    assert Searcher(large_store, in_memory=False).description == f"{config.index},probes={config.probes}"
    assert Searcher(small_store).description == "Flat"
    assert describe_index(small_store)["index"] == "Flat"
    described = describe_index(large_store)
    assert (described["engine"], described["recall"]) == ("faiss", config.recall)
    assert described["exact_entries"] == 0


def test_a_store_on_disk(tmp_path: Path) -> None:
    """Built, indexed and added to as `knnmt build` does it."""
    random = np.random.default_rng(0)

    def add(sentences: int, index: str | None) -> None:
        with StoreWriter(tmp_path / "store", toy_model(16)) as writer:
            staged = writer.stage(f"{sentences}")
            keys = clustered(random, 4 * sentences, 16)
            values = random.integers(1, 1000, 4 * sentences).astype(np.int32)
            confidence = -random.exponential(size=4 * sentences).astype(np.float32)
            pairs = [Pair(f"Satz {n}", f"sentence {n}", "a.tsv", n + 1) for n in range(sentences)]
            staged.append(keys, values, confidence, [4] * sentences, pairs, {})
            plan = writer.plan(staged)
            directory = None
            if index is not None:
                directory = writer.new_directory("index")
                build_index(Entries(plan.segments), directory, index)
            writer.commit(plan, index=directory)

    for sentences, index, kind in ((50, None, "Flat"), (600, "ivf", "IVF"), (70, None, "IVF"), (30, "flat", "Flat")):
        add(sentences, index)
        store = Store.open(tmp_path / "store")
        searching = Searcher(store)
        assert searching.description.startswith(kind)
        queries = np.concatenate([store.segments[0].keys[5:9], store.segments[-1].keys[-4:]]).astype(np.float32)
        found = searching.search(queries, 2)
        assert (found.distances[:, 0] == 0).all()
        assert (found.values == store.entries.values(found.ids)).all()
        assert [each.position for each in store.provenance(found.ids[-4:, 0])] == [0, 1, 2, 3]
