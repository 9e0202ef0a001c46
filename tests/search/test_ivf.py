import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import faiss
import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, clustered, read_config

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.search import build_index, ivf
from knnmt.search.ivf import HELD, IVF, MAPPED


@pytest.fixture(scope="module")
def directory(large_store: MemoryStore) -> Path:
    assert large_store.index_directory is not None
    return large_store.index_directory


@pytest.fixture(scope="module")
def index(large_store: MemoryStore, directory: Path) -> IVF:
    return IVF.open(directory, read_config(directory), large_store.entries)


@pytest.fixture(scope="module", params=[False, True], ids=["mapped", "in-memory"])
def either(large_store: MemoryStore, directory: Path, request: pytest.FixtureRequest) -> IVF:
    return IVF.open(directory, read_config(directory), large_store.entries, request.param)


def test_config_says_what_was_built(large_store: MemoryStore, directory: Path, index: IVF) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert config["engine"] == "faiss"
    assert config["index"] == f"IVF{index.faiss_index.nlist},RaBitQ"
    assert config["segments"] == {segment.name: segment.record.checksum for segment in large_store.segments}
    assert config["entries"] == 20_000
    assert config["seed"] == 1
    assert config["probes"] == index.probes < index.faiss_index.nlist
    assert config["rescore"] == index.rescore
    assert list(config["recall"]) == ["8", "16", "32"]
    assert config["recall"]["16"] >= 0.95


def test_recorded_recall_is_what_other_queries_find(large_store: MemoryStore, directory: Path, either: IVF) -> None:
    """Against sorting all distances; queries and own sentences chosen here."""
    keys = large_store.column("keys").astype(np.float32)
    ids = large_store.column("ids")
    sentence = Entries(large_store.segments).sentence(ids)
    config = read_config(directory)
    hits = 0
    chosen = np.random.default_rng(99).choice(len(keys), 300, replace=False)
    candidates = either.candidates(keys[chosen], 16).ids
    for query, found in zip(chosen, candidates, strict=True):
        distances = ((keys - keys[query]) ** 2).sum(1)
        distances[sentence == sentence[query]] = np.inf
        hits += len(set(ids[np.argsort(distances)[:16]].tolist()) & set(found.tolist()))
    # Own entries take some of the candidates' room here, which costs little.
    assert hits / (300 * 16) == pytest.approx(config.recall["16"], abs=0.03)


def test_all_lists_and_all_candidates_give_every_entry(large_store: MemoryStore, either: IVF) -> None:
    found = either.probe(np.zeros((1, 32), dtype=np.float32), 30_000, 10_000).ids
    assert (np.sort(found[0]) == large_store.column("ids")).all()


def test_candidates_come_in_the_order_of_their_codes(large_store: MemoryStore, either: IVF) -> None:
    """The first candidates have to be better than the last, or rescoring a prefix would be worth nothing."""
    queries = large_store.column("keys")[::400].astype(np.float32)
    ids = either.probe(queries, 64, 32).ids
    near = Entries(large_store.segments).keys(ids.reshape(-1)).reshape(50, 64, 32)
    distances = ((near - queries[:, None]) ** 2).sum(2)
    assert distances[:, :8].mean() < 0.8 * distances[:, -8:].mean()


def test_wider_means_more_lists_and_more_candidates(index: IVF, large_store: MemoryStore) -> None:
    queries = large_store.column("keys")[:50].astype(np.float32)
    narrow, wide = index.candidates(queries, 4).ids, index.candidates(queries, 4, widen=4).ids
    assert wide.shape[1] == 4 * narrow.shape[1]
    assert (index.probe(queries, 20_000, index.probes * 4).ids >= 0).sum() > (
        index.probe(queries, 20_000, index.probes).ids >= 0
    ).sum()


def test_each_layout_has_a_file_which_is_mapped(directory: Path, either: IVF) -> None:
    path = directory / (HELD if either.in_memory else MAPPED)
    assert str(path) in Path("/proc/self/maps").read_text()
    lists = faiss.downcast_InvertedLists(either.faiss_index.invlists)
    assert isinstance(lists, faiss.BlockInvertedLists) == either.in_memory  # type: ignore[attr-defined]


def test_both_layouts_hold_the_same_codes(large_store: MemoryStore, directory: Path) -> None:
    """FastScan rounds its distances, so that candidates at the edge may differ, and only these."""
    config = read_config(directory)
    mapped, held = (IVF.open(directory, config, large_store.entries, each) for each in (False, True))
    queries = large_store.column("keys")[::100].astype(np.float32)
    ours, theirs = mapped.candidates(queries, 16).ids, held.candidates(queries, 16).ids
    assert ours.shape == theirs.shape
    shared = [len(set(a) & set(b)) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)]
    assert np.mean(shared) >= 0.97 * ours.shape[1]


def test_an_index_without_a_layout_for_memory_is_mapped(tmp_path: Path) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(8), 2_000, 8))
    build_index(Entries([segment]), tmp_path, "ivf")
    config = read_config(tmp_path)
    del config.files[HELD]
    assert not IVF.open(tmp_path, config, Entries([segment]), in_memory=True).in_memory


@pytest.mark.parametrize("name", [MAPPED, HELD])
def test_bytes_per_entry(large_store: MemoryStore, directory: Path, name: str) -> None:
    assert (directory / name).stat().st_size / large_store.entry_count <= large_store.dim / 8 + 32


def test_graph_over_the_centres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivf, "graph_links", lambda lists: 8)
    segment = MemorySegment(1, clustered(np.random.default_rng(5), 8_000, 16))
    build_index(Entries([segment]), tmp_path / "index", "ivf")
    config = read_config(tmp_path / "index")
    assert config.index.endswith("_HNSW8,RaBitQ")
    assert config.recall["16"] >= 0.95
    index = IVF.open(tmp_path / "index", config, Entries([segment]))
    assert isinstance(faiss.downcast_index(index.faiss_index.quantizer), faiss.IndexHNSW)
    assert index.graph
    assert index.candidates(segment.keys[:3].astype(np.float32), 2).ids.shape == (3, 2 * config.rescore)


def test_the_same_entries_give_the_same_index(tmp_path: Path) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(6), 3_000, 8))
    for name in ("a", "b"):
        build_index(Entries([segment]), tmp_path / name, "ivf")
    for file in (MAPPED, HELD):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert read_config(tmp_path / "a") == read_config(tmp_path / "b")


@pytest.mark.parametrize("entries", [1, 40, 700])
def test_a_few_entries_can_be_indexed_too(tmp_path: Path, entries: int) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(7), entries, 8), sentence_length=1)
    build_index(Entries([segment]), tmp_path / "index", "ivf")
    config = read_config(tmp_path / "index")
    index = IVF.open(tmp_path / "index", config, Entries([segment]))
    assert index.candidates(segment.keys.astype(np.float32), 1).ids[0, 0] == 1 << 32


def damage_nothing_left(path: Path) -> None:
    os.remove(path)


def damage_cut_short(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


def damage_garbage(path: Path) -> None:
    path.write_bytes(b"\x07" * path.stat().st_size)


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("damage", [damage_nothing_left, damage_cut_short, damage_garbage])
def test_damaged_file_is_a_sentence(tmp_path: Path, damage: Callable[[Path], None], in_memory: bool) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(8), 2_000, 8))
    build_index(Entries([segment]), tmp_path / "index", "ivf")
    for name in (HELD, MAPPED) if in_memory else (MAPPED,):
        damage(tmp_path / "index" / name)
    config = read_config(tmp_path / "index")
    with (
        pytest.raises(StoreError, match="knnmt build"),
        pytest.warns(UserWarning, match=HELD) if in_memory and damage is not damage_garbage else nullcontext(),
    ):
        IVF.open(tmp_path / "index", config, Entries([segment]), in_memory)


@pytest.mark.parametrize("damage", [damage_nothing_left, damage_cut_short])
def test_the_mapped_layout_stands_in_for_a_lost_one(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(8), 2_000, 8))
    build_index(Entries([segment]), tmp_path / "index", "ivf")
    damage(tmp_path / "index" / HELD)
    config = read_config(tmp_path / "index")
    with pytest.warns(UserWarning, match=f"{HELD} .*knnmt build.*{MAPPED} is searched"):
        index = IVF.open(tmp_path / "index", config, Entries([segment]), in_memory=True)
    assert not index.in_memory
    queries = segment.keys[:20].astype(np.float32)
    mapped = IVF.open(tmp_path / "index", config, Entries([segment]))
    assert (index.candidates(queries, 8).ids == mapped.candidates(queries, 8).ids).all()
    (problem,) = config.problems(tmp_path / "index")
    assert HELD in problem


@pytest.mark.parametrize("name", [MAPPED, HELD])
def test_no_room_for_the_file(tmp_path: Path, name: str) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(9), 500, 8))
    (tmp_path / name).mkdir()  # nothing can be written under this name
    with pytest.raises(StoreError, match="cannot write"):
        build_index(Entries([segment]), tmp_path, "ivf")
    assert not (tmp_path / "config.json").exists()
