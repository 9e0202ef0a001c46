import json
import threading
from itertools import pairwise

import numpy as np
import pytest
from tolerances import SUM_OF_SQUARES

from knnmt.corpus import Pair
from knnmt.datastore import Entries, ModelRecord, Store, StoreWriter
from knnmt.errors import StoreError
from knnmt.search import IndexConfig, Searcher, build_index, describe_index, parameters, searcher


def random_queries(rows, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 3, 30])
@pytest.mark.parametrize("k", [1, 8])
def test_without_index_it_is_exact_over_several_segments(small_store, toolbox, rows, k):
    queries = random_queries(rows, 16)
    toolbox.assert_found(small_store, Searcher(small_store).search(queries, k), queries, k)


def test_fewer_entries_than_k(small_store, toolbox):
    queries = random_queries(2, 16)
    found = Searcher(small_store).search(queries, 310)
    toolbox.assert_found(small_store, found, queries, 310)
    assert (found.ids[:, 299] >= 0).all()
    assert (found.ids[:, 300:] == -1).all()
    assert np.isposinf(found.distances[:, 300:]).all()
    assert (found.values[:, 300:] == 0).all()
    assert (found.log_confidence[:, 300:] == 0).all()


def test_no_queries(small_store):
    found = Searcher(small_store).search(np.empty((0, 16), dtype=np.float32), 4)
    assert found.ids.shape == found.values.shape == (0, 4)


def test_rows_can_be_taken_out(small_store):
    found = Searcher(small_store).search(random_queries(5, 16), 4)
    part = found[1:3]
    assert (part.ids == found.ids[1:3]).all()
    assert part.values.shape == part.log_confidence.shape == part.distances.shape == (2, 4)


def test_queries_of_another_size_are_a_mistake(small_store):
    with pytest.raises(ValueError, match="16"):
        Searcher(small_store).search(random_queries(2, 8), 4)
    with pytest.raises(ValueError, match="at least 1"):
        Searcher(small_store).search(random_queries(2, 16), 0)


@pytest.mark.parametrize(("share", "held"), [(1 / 8, True), (0.0, False)])
def test_the_index_is_held_in_memory_where_it_fits(large_store, monkeypatch, share, held):
    monkeypatch.setattr(parameters, "HELD_SHARE", share)
    assert Searcher(large_store).indexes[0].in_memory == held
    assert Searcher(large_store).description.endswith(",in-memory") == held
    for asked in (True, False):
        assert Searcher(large_store, asked).indexes[0].in_memory == asked


def test_index_finds_nearly_all_and_rescores_exactly(large_store, toolbox):
    queries = large_store.column("keys")[::500].astype(np.float32) + 0.1 * random_queries(40, 32)
    found = Searcher(large_store).search(queries, 16)
    ids, _ = toolbox.naive(large_store, queries, 16)
    hits = sum(len(set(a) & set(b)) for a, b in zip(found.ids.tolist(), ids.tolist(), strict=True))
    assert hits / ids.size >= 0.93
    keys = Entries(large_store.segments).keys(found.ids.reshape(-1)).reshape(40, 16, 32).astype(np.float64)
    np.testing.assert_allclose(found.distances, ((keys - queries[:, None]) ** 2).sum(2), rtol=SUM_OF_SQUARES)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert (found.values == large_store.entries.values(found.ids)).all()


@pytest.fixture
def exhaustive(large_store, toolbox):
    """An index that looks at everything it covers, and 500 entries beside it."""
    tail = toolbox.make_segment(12, toolbox.clustered(np.random.default_rng(0), 500, 32))
    store = toolbox.MemoryStore([*large_store.segments, tail], large_store.index_directory)
    found = Searcher(store)
    found.indexes[0].probes = found.indexes[0].faiss_index.nlist
    found.indexes[0].rescore = 200
    return found


def test_index_and_tail_are_merged(exhaustive, toolbox):
    queries = np.concatenate(
        [exhaustive.store.segments[2].keys[:5], exhaustive.store.segments[0].keys[:5]]
    ) + 0.1 * random_queries(10, 32)
    found = exhaustive.search(queries, 12)
    toolbox.assert_found(exhaustive.store, found, queries, 12)
    sources = set((found.ids >> 32).ravel().tolist())
    assert 12 in sources
    assert len(sources) > 1


def test_exclusion_row_by_row(exhaustive, toolbox):
    """Each row leaves out another third of the entries, and one row everything near."""
    queries = random_queries(4, 32)
    near = set(toolbox.naive(exhaustive.store, queries[3:], 900)[0].ravel().tolist())

    def exclude(ids, rows):
        mask = ids % 3 == rows[:, None]
        mask[rows == 3] = np.isin(ids[rows == 3], list(near))
        return mask

    found = exhaustive.search(queries, 8, exclude)
    toolbox.assert_found(
        exhaustive.store,
        found,
        queries,
        8,
        lambda row, entry: entry in near if row == 3 else entry % 3 == row,
    )


def test_exclusion_looks_farther_until_there_are_enough(large_store, toolbox):
    """The usual probes and candidates would not do: the nearest 600 are left out."""
    searching = Searcher(large_store)
    queries = large_store.column("keys")[:3].astype(np.float32)
    near = toolbox.naive(large_store, queries, 600)[0]
    widths = []

    def exclude(ids, rows):
        widths.append(ids.shape[1])
        return np.array([np.isin(row, left_out) for row, left_out in zip(ids, near[rows], strict=True)])

    found = searching.search(queries, 8, exclude)
    assert (found.ids >= 0).all()
    assert not any(set(a) & set(b) for a, b in zip(found.ids.tolist(), near.tolist(), strict=True))
    assert all(later == 2 * earlier for earlier, later in pairwise(widths[:4]))
    assert len(widths) > 1


@pytest.mark.parametrize("k", [1, 8])
def test_a_tail_does_not_stand_in_for_what_the_index_has(small_store, toolbox, tmp_path, k):
    """All that the index proposes at first is left out; the tail has enough, but farther away."""
    build_index(small_store.entries, tmp_path / "index", "flat")
    tail = toolbox.make_segment(12, np.full((20, 16), 50, dtype=np.float16))
    store = toolbox.MemoryStore([*small_store.segments, tail], tmp_path / "index")
    queries = small_store.column("keys")[:3].astype(np.float32)
    near = toolbox.naive(store, queries, 60)[0]
    found = Searcher(store).search(queries, k, lambda ids, rows: (ids[:, :, None] == near[rows][:, None]).any(2))
    toolbox.assert_found(store, found, queries, k, lambda row, entry: entry in near[row])


def test_rows_that_have_enough_are_not_asked_again(exhaustive, toolbox, monkeypatch):
    """`exclude` knows which queries it is asked for, and exact search is for those that still lack neighbours."""
    exhaustive.indexes[0].rescore = 20  # however far it looks, half of the entries are no candidates
    queries = random_queries(5, 32)
    allowed = np.random.default_rng(2).choice(exhaustive.store.column("ids"), 8, replace=False)
    asked, exact = [], []

    def exclude(ids, rows):
        assert ids.shape[0] == len(rows)
        asked.append(rows.tolist())
        return (rows[:, None] % 2 == 1) & ~np.isin(ids, allowed)

    def nearest_allowed(entries, of, rows, k, exclude):
        exact.append(rows.tolist())
        assert (of == queries[rows]).all()
        return real(entries, of, rows, k, exclude)

    real = searcher.nearest_allowed
    monkeypatch.setattr(searcher, "nearest_allowed", nearest_allowed)
    found = exhaustive.search(queries, 8, exclude)
    toolbox.assert_found(exhaustive.store, found, queries, 8, lambda row, entry: row % 2 == 1 and entry not in allowed)
    assert asked[:2] == [[0, 1, 2, 3, 4]] * 2, "what the index proposes, and the tail"
    assert {tuple(rows) for rows in asked[2:]} == {(1, 3)}
    assert exact == [[1, 3]]


@pytest.mark.parametrize("left", [0, 3, 20])
def test_exclusion_of_nearly_everything_ends_with_what_is_left(large_store, toolbox, left):
    queries = random_queries(2, 32)
    allowed = np.random.default_rng(3).choice(large_store.column("ids"), left, replace=False)
    found = Searcher(large_store).search(queries, 8, lambda ids, rows: ~np.isin(ids, allowed))
    toolbox.assert_found(large_store, found, queries, 8, lambda row, entry: entry not in allowed)


def test_candidates_of_too_few_lists_are_made_up_for(large_store):
    """One probed list holds fewer entries than are asked for; the store has more."""
    searching = Searcher(large_store)
    searching.indexes[0].probes = 1
    sizes = [searching.indexes[0].faiss_index.get_list_size(n) for n in range(searching.indexes[0].faiss_index.nlist)]
    found = searching.search(random_queries(3, 32), max(sizes) + 1)
    assert (found.ids >= 0).all()


def test_threads_share_a_searcher(large_store):
    searching = Searcher(large_store)
    queries = [random_queries(20, 32, seed) for seed in range(4)]
    expected = [searching.search(each, 8).ids for each in queries]
    wrong = []

    def work(number):
        found = [searching.search(queries[number], 8).ids for _ in range(10)]
        wrong.extend(number for ids in found if (ids != expected[number]).any())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_index_of_other_segments_is_refused(large_store, toolbox):
    store = toolbox.MemoryStore(large_store.segments[:1], large_store.index_directory)
    with pytest.raises(StoreError, match="knnmt build"):
        Searcher(store)


def test_index_of_other_content_is_refused(small_store, toolbox, tmp_path):
    """Segments of the same names and sizes, but in one of them a single number differs."""
    build_index(small_store.entries, tmp_path / "index", "flat")
    Searcher(toolbox.MemoryStore(small_store.segments, tmp_path / "index"))
    small_store.segments[1].keys[3, 2] += 1
    with pytest.raises(StoreError, match=r"is not of this store's segments; .*knnmt build"):
        Searcher(toolbox.MemoryStore(small_store.segments, tmp_path / "index"))


def test_an_index_with_names_of_segments_only_is_searched(small_store, toolbox, tmp_path):
    build_index(small_store.entries, tmp_path / "index", "flat")
    config = json.loads((tmp_path / "index/config.json").read_text())
    (tmp_path / "index/config.json").write_text(json.dumps(config | {"segments": list(config["segments"])}))
    queries = random_queries(3, 16)
    found = Searcher(toolbox.MemoryStore(small_store.segments, tmp_path / "index")).search(queries, 4)
    toolbox.assert_found(small_store, found, queries, 4)


def test_index_of_an_unknown_kind_is_refused(large_store, monkeypatch):
    monkeypatch.setattr(searcher, "INDEX_KINDS", {})
    with pytest.raises(StoreError, match="newer"):
        Searcher(large_store)


def test_ids_that_no_entry_has_are_a_sentence(large_store, monkeypatch):
    searching = Searcher(large_store)
    for wrong in ((5 << 32) + 1, (3 << 32) + 15_000):
        monkeypatch.setattr(searching, "indexes", [Stubborn(wrong)])
        with pytest.raises(StoreError, match="knnmt build"):
            searching.search(random_queries(2, 32), 1)


class Stubborn:
    in_memory, size = True, 20_000

    def __init__(self, entry):
        self.entry = entry

    def candidates(self, queries, k, widen=1):
        return np.full((len(queries), k), self.entry)


def test_missing_index_is_refused(large_store, toolbox, tmp_path):
    with pytest.raises(StoreError, match="knnmt build"):
        Searcher(toolbox.MemoryStore(large_store.segments, tmp_path / "nowhere"))


def test_descriptions(large_store, small_store):
    config = IndexConfig.of(large_store.index_config)
    assert Searcher(large_store, in_memory=False).description == f"{config.index},probes={config.probes}"
    assert Searcher(small_store).description == "Flat"
    assert describe_index(small_store)["index"] == "Flat"
    described = describe_index(large_store)
    assert (described["engine"], described["recall"]) == ("faiss", config.recall)
    assert described["exact_entries"] == 0


def test_a_store_on_disk(tmp_path, toolbox):
    """Built, indexed and added to as `knnmt build` does it."""
    model = ModelRecord("toy", "f", "t", "output", 16, 1000, "torch", "float32", "", "de", "en", 512)
    random = np.random.default_rng(0)

    def add(sentences, index):
        with StoreWriter(tmp_path / "store", model) as writer:
            staged = writer.stage(f"{sentences}")
            keys = toolbox.clustered(random, 4 * sentences, 16)
            values = random.integers(1, 1000, 4 * sentences).astype(np.int32)
            confidence = -random.exponential(size=4 * sentences).astype(np.float32)
            pairs = [Pair(f"Satz {n}", f"sentence {n}", "a.tsv", n + 1) for n in range(sentences)]
            staged.append(keys, values, confidence, [4] * sentences, pairs, {})
            plan = writer.plan(staged)
            directory = writer.new_directory("index") if index else None
            if directory is not None:
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
