"""Making views: what a cut leaves out is found by no search, and a store is changed as a whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from memory_store import clustered, toy_model
from tolerances import SUM_OF_SQUARES

from knnmt.corpus import Pair
from knnmt.datastore import Entries, Store, StoreWriter, file_record, verify_files, writer
from knnmt.datastore.cuts import ConfidenceCut, Cut, RandomCut
from knnmt.datastore.files import checksum
from knnmt.decoding import Settings, Translator, explain
from knnmt.errors import StoreError
from knnmt.methods import Vanilla
from knnmt.model import TranslationModel
from knnmt.search import Neighbours, Searcher, build_index
from knnmt.search.ivf import IVF
from knnmt.workflow import make_view, verify, viewing

DIM, LENGTH = 16, 5
CUTS: list[Cut] = [ConfidenceCut(0.0, 0.6), ConfidenceCut(0.2, 0.4), RandomCut(0.8, seed=1)]


def add(path: Path, count: int, seed: int) -> Store:
    """A segment of so many entries, with an index if it is the first. Every tenth key is there twice."""
    random = np.random.default_rng(seed)
    keys = clustered(random, count, DIM, centres=5)
    keys[::10] = keys[1::10]
    pairs = [Pair(f"Satz {seed}.{n}", f"sentence {seed}.{n}", "a.tsv", n + 1) for n in range(count // LENGTH)]
    confidence = -random.exponential(size=count).round(1).astype(np.float32)
    with StoreWriter(path, toy_model(DIM)) as adding:
        staged = adding.stage(str(seed))
        staged.append(keys, np.arange(count) % 1000, confidence, [LENGTH] * len(pairs), pairs, {})
        plan, index = adding.plan(staged), None
        if adding.store is None:
            index = adding.new_directory("index")
            build_index(Entries(plan.segments), index, "ivf")
        return adding.commit(plan, index=index)


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store of two segments; its index covers the first."""
    monkeypatch.setattr(writer, "TAIL_ENTRIES", 0)
    add(tmp_path / "vectors", 400, 1)
    return add(tmp_path / "vectors", 200, 2)


def live_ids(store: Store) -> list[int]:
    return [
        segment.number * 2**32 + row
        for segment in store.segments
        for row in range(len(segment))
        if segment.name not in store.entries.mask or store.entries.mask[segment.name][row]
    ]


def searching(store: Store) -> Searcher:
    """One that looks at everything its index has."""
    searcher = Searcher(store)
    for index in searcher.indexes:
        if isinstance(index, IVF):
            index.probes, index.rescore = 1000, 1000
    return searcher


def queries_of(store: Store) -> Any:
    """Keys of live entries and of others."""
    return np.concatenate([segment.keys[::17] for segment in store.segments]).astype(np.float32)


def assert_nearest(store: Store, allowed: list[int], found: Neighbours, queries: Any) -> None:
    """The neighbours are those of comparing with every allowed key; of equally near ones any will do."""
    keys = {
        segment.number * 2**32 + row: key
        for segment in store.segments
        for row, key in enumerate(segment.keys.astype(np.float64))
    }
    for query, ids, distances in zip(queries.astype(np.float64), found.ids.tolist(), found.distances, strict=True):
        ids = [entry for entry in ids if entry >= 0]
        assert set(ids) <= set(allowed)
        assert len(set(ids)) == len(ids) == min(found.ids.shape[1], len(allowed))
        nearest = sorted(float(((keys[entry] - query) ** 2).sum()) for entry in allowed)[: len(ids)]
        np.testing.assert_allclose(distances[: len(ids)], nearest, rtol=SUM_OF_SQUARES, atol=SUM_OF_SQUARES)


@pytest.mark.parametrize("kind", ["auto", "flat", "ivf"])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_what_is_left_out_is_not_found(vectors: Store, cut: Cut, kind: str) -> None:
    view = make_view(vectors.path, "cut", cut, kind)
    expected = cut.kept(vectors.entries)
    allowed = live_ids(view)
    assert allowed == expected.ids(np.arange(len(expected))).tolist()
    assert (view.index_config is None) == (kind == "auto"), "a small one needs no index"
    searcher, queries = searching(view), queries_of(vectors)
    for k in (1, 8, len(vectors.entries)):
        assert_nearest(vectors, allowed, searcher.search(queries, k), queries)
    first = set(searcher.search(queries, 20).ids.flatten().tolist())
    rest = [entry for entry in allowed if entry not in first]
    found = searcher.search(queries, 8, lambda ids, rows: np.isin(ids, list(first)))
    assert_nearest(vectors, rest, found, queries)
    assert verify(vectors.path) == []


@pytest.mark.parametrize("kind", ["auto", "flat", "ivf"])
def test_the_store_stays_as_it_was(vectors: Store, kind: str) -> None:
    view = make_view(vectors.path, "cut", CUTS[0], kind)
    whole = Store.open(vectors.path)
    assert whole.fingerprint == vectors.fingerprint != view.fingerprint
    assert whole.index_directory == vectors.index_directory != view.index_directory
    assert whole.manifest.segments == vectors.manifest.segments
    queries = queries_of(vectors)
    assert_nearest(vectors, live_ids(vectors), searching(whole).search(queries, 8), queries)


def test_views_of_views(vectors: Store) -> None:
    first = make_view(vectors, "first", ConfidenceCut(0.0, 0.5))
    second = make_view(first, "second", RandomCut(0.5, seed=1), "ivf")
    assert set(live_ids(second)) < set(live_ids(first)) < set(live_ids(vectors))
    queries = queries_of(vectors)
    assert_nearest(vectors, live_ids(second), searching(second).search(queries, 8), queries)
    narrowed = make_view(second.view("first"), "first", RandomCut(0.5, seed=1))
    assert narrowed.fingerprint == second.fingerprint
    assert live_ids(first) == live_ids(Store(first._snapshot, "first")), "who has it open keeps it"


def test_entries_that_stay(vectors: Store) -> None:
    """As a caller has chosen them: here without some sentences, and all of one segment with another index."""
    first = vectors.segments[0]
    entries = vectors.entries.without((first.number << 32) + np.flatnonzero(first.sentence < 3))
    assert live_ids(make_view(vectors, "without", entries)) == live_ids(vectors)[3 * LENGTH :]
    again = make_view(vectors, "again", vectors.entries.of_segments({first.name}), "flat")
    assert again.fingerprint == Entries([first]).fingerprint
    assert len(searching(again).indexes) == 1


def test_replaced_and_removed(vectors: Store) -> None:
    old = make_view(vectors, "cut", CUTS[0], "ivf")
    new = make_view(vectors, "cut", CUTS[2])
    assert new.fingerprint != old.fingerprint
    assert new.index_config is None
    queries = queries_of(vectors)
    assert_nearest(vectors, live_ids(old), searching(old).search(queries, 8), queries)
    assert_nearest(vectors, live_ids(new), searching(old.latest()).search(queries, 8), queries)
    with StoreWriter(vectors.path, vectors.model) as removing:
        removing.remove_view("cut")
    with pytest.raises(StoreError, match="no view cut of the store; it has none"):
        old.latest()
    assert_nearest(vectors, live_ids(new), searching(new).search(queries, 8), queries)
    del old, new
    left = make_view(vectors, "other", CUTS[1], "flat")
    present = {f"{part}/{path.name}" for part in ("index", "views") for path in (left.path / part).iterdir()}
    assert present == {record.directory for record in left.manifest.derived()}
    assert verify(vectors.path) == []


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "file", ["views/cut.000001/000002.npy", "index/000002/index.faiss", "index/000002/config.json"]
)
@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_verify_finds_damage(vectors: Store, file: str, damage: Callable[[Path], None]) -> None:
    make_view(vectors, "cut", CUTS[0], "ivf")
    damage(vectors.path / file)
    (problem,) = verify(vectors.path)
    assert problem.startswith(str(vectors.path / file))
    assert problem.endswith("make the view again, or remove it")
    make_view(vectors, "cut", CUTS[0], "ivf")
    assert verify(vectors.path) == []


def left_as_it_was(before: Store) -> bool:
    directories = {path.name for part in ("index", "views") for path in (before.path / part).glob("*")}
    return Store.open(before.path).manifest == before.manifest and directories == {"000001"}


@pytest.mark.parametrize("index", ["auto", "flat"])
def test_a_damaged_segment(vectors: Store, index: str) -> None:
    flip(vectors.path / "segments/000002/keys.npy")
    with pytest.raises(StoreError, match=r"000002/keys\.npy is damaged, its checksum is not the manifest's"):
        make_view(vectors.path, "cut", CUTS[0], index)
    assert left_as_it_was(vectors)
    make_view(vectors, "first", vectors.entries.of_segments({"000001"}))


def test_segments_are_read_once_for_all_views(vectors: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def spy(path: Path) -> str:
        read.append(path)
        return checksum(path)

    monkeypatch.setattr(file_record, "checksum", spy)
    for number, cut in enumerate(CUTS):
        make_view(vectors, str(number), cut, "flat")
    segments = [path for path in read if "segments" in path.parts]
    assert len(segments) == len(set(segments)) == 12


@pytest.mark.parametrize(
    ("name", "kept", "index", "words"),
    [
        ("cut", ConfidenceCut(0.0, 1.0), "ivf", "would leave nothing to search; keep some entries"),
        ("cut", RandomCut(0.9999, seed=1), "auto", "would leave nothing to search; keep some entries"),
        ("main", CUTS[0], "ivf", "choose another name"),
        ("a/b", CUTS[0], "ivf", "cannot name a view"),
        ("cut", CUTS[0], "hnsw", "no index of kind 'hnsw'"),
    ],
)
def test_what_cannot_be_a_view_is_refused_before_any_work(
    vectors: Store, monkeypatch: pytest.MonkeyPatch, name: str, kept: Cut, index: str, words: str
) -> None:
    monkeypatch.setattr(viewing, "build_index", lambda *_: pytest.fail("an index is built"))
    with pytest.raises(StoreError, match=words):
        make_view(vectors, name, kept, index)
    assert left_as_it_was(vectors)


def test_a_store_that_has_grown(vectors: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is open is cut as it was; a directory is read when it is locked."""
    add(vectors.path, 50, 3)
    assert [segment.name for segment in make_view(vectors, "old", CUTS[0]).segments] == ["000001", "000002"]

    class Late(StoreWriter):
        def __enter__(self) -> Self:
            add(self.path, 60, 4)
            return super().__enter__()

    monkeypatch.setattr(viewing, "StoreWriter", Late)
    view = make_view(vectors.path, "new", CUTS[0])
    assert [segment.name for segment in view.segments] == ["000001", "000002", "000003", "000004"]
    assert len(view.entries) == 710 - round(0.6 * 710)


def test_a_segment_that_is_no_longer_there(vectors: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was small, and what was added took it in."""
    monkeypatch.setattr(writer, "TAIL_ENTRIES", 1000)
    grown = add(vectors.path, 50, 3)
    assert [segment.name for segment in grown.segments] == ["000001", "000003"]
    with pytest.raises(StoreError, match=r"segment 000002, which is no longer in .*; open the store again"):
        make_view(vectors, "cut", CUTS[0], "flat")
    assert left_as_it_was(grown)
    assert len(make_view(vectors.latest(), "cut", CUTS[0]).entries) == 650 - round(0.6 * 650)


@pytest.mark.parametrize("moment", ["build_index", "write_view", "write_manifest"])
def test_a_kill(vectors: Store, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    before = make_view(vectors, "before", CUTS[1])
    with monkeypatch.context() as patch:
        patch.setattr(viewing if moment == "build_index" else writer, moment, kill)
        patch.setattr(StoreWriter, "_leave", lambda self: self._lock.release())  # a kill tidies nothing
        with pytest.raises(Killed):
            make_view(vectors, "before", CUTS[0], "flat")
    left = Store.open(vectors.path)
    assert left.manifest == before.manifest
    assert left.view("before").fingerprint == before.fingerprint
    assert (left.path / "index/000002").is_dir()
    assert verify_files(left.path) == []
    del before, left
    again = make_view(vectors, "before", CUTS[0], "flat")
    with StoreWriter(again.path, again.model):
        pass  # sweeps
    present = {f"{part}/{path.name}" for part in ("index", "views") for path in (again.path / part).iterdir()}
    assert present == {record.directory for record in again.manifest.derived()}
    assert verify(again.path) == []


@pytest.mark.parametrize("kind", ["auto", "flat", "ivf"])
def test_translations(store: Store, model: TranslationModel, kind: str) -> None:
    """A signature names the view's content, and explanations show live entries only."""
    view = make_view(store, "cut", ConfidenceCut(0.0, 0.5), kind)
    combiner = Vanilla(8, 0.9, 10.0)
    of_store, of_view = (
        Translator.open(each, combiner, settings=Settings(beam=1, max_length=8), model=model) for each in (store, view)
    )
    assert of_store.signature != of_view.signature
    assert f"|store:{view.fingerprint[:8]}" in of_view.signature
    live = {(each.line, each.position) for each in view.provenance(np.array(live_ids(view)))}
    seen: list[set[tuple[int, int]]] = []
    for translator in (of_store, of_view):
        tokens = explain(translator, "Der Drucker ist nicht angeschlossen.")["tokens"]
        seen.append({(each["line"], each["position"]) for token in tokens for each in token["neighbours"]})
    assert not seen[0] <= live
    assert seen[1] <= live
