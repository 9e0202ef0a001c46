import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from memory_store import MemorySegment, MemoryStore, Queries, clustered, naive, read_config
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.search import build_index
from knnmt.search.ivfpq import FILE, IVFPQ


@pytest.fixture(scope="module")
def directory(pq_store: MemoryStore) -> Path:
    assert pq_store.index_directory is not None
    return pq_store.index_directory


def opened(store: MemoryStore, in_memory: bool = False) -> IVFPQ:
    assert store.index_directory is not None
    return IVFPQ.open(store.index_directory, read_config(store.index_directory), store.entries, in_memory)


@pytest.fixture(scope="module", params=[False, True], ids=["mapped", "in-memory"])
def either(pq_store: MemoryStore, request: pytest.FixtureRequest) -> IVFPQ:
    return opened(pq_store, request.param)


@pytest.fixture
def queries(pq_store: MemoryStore) -> Queries:
    """Near to stored keys."""
    keys = pq_store.column("keys")[::150].astype(np.float32)
    return keys + 0.2 * np.random.default_rng(0).normal(size=keys.shape).astype(np.float32)


def test_config_says_what_was_built(pq_store: MemoryStore, directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert (config["engine"], config["kind"], config["index"]) == ("faiss", "ivfpq", "IVF153,PQ32")
    assert config["segments"] == {segment.name: segment.record.checksum for segment in pq_store.segments}
    assert (config["entries"], config["lists"], config["probes"], config["rescore"]) == (6_000, 153, 32, 1)
    assert (config["by_residual"], config["seed"]) == (1, 1)
    assert list(config["recall"]) == ["8", "16", "32"]


def test_its_name_is_what_faiss_calls_it(directory: Path, either: IVFPQ) -> None:
    made: Any = faiss.index_factory(32, read_config(directory).index)
    ours = either.faiss_index
    assert type(ours) is type(made)
    assert (ours.nlist, ours.pq.M, ours.pq.nbits) == (made.nlist, made.pq.M, made.pq.nbits)
    assert ours.by_residual
    assert made.by_residual


@pytest.mark.parametrize("k", [1, 8, 64])
def test_candidates_are_the_nearest_of_what_the_codes_say(
    pq_store: MemoryStore, queries: Queries, decode: Callable[[MemoryStore], MemoryStore], in_memory: bool, k: int
) -> None:
    index = opened(pq_store, in_memory)
    index.probes = index.faiss_index.nlist
    decoded = decode(pq_store)
    found = index.candidates(queries, k)
    assert found.ids.shape == found.estimates.shape == (len(queries), k)
    np.testing.assert_allclose(found.estimates, naive(decoded, queries, k)[1], rtol=SUM_OF_SQUARES)
    keys = decoded.entries.keys(found.ids).astype(np.float64)
    np.testing.assert_allclose(found.estimates, ((keys - queries[:, None]) ** 2).sum(2), rtol=SUM_OF_SQUARES)


@pytest.fixture(params=[False, True], ids=["mapped", "in-memory"])
def in_memory(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_recorded_recall_is_what_other_queries_find(pq_store: MemoryStore, directory: Path, either: IVFPQ) -> None:
    """Against sorting all distances; queries and own sentences chosen here."""
    ids, own = pq_store.column("ids"), pq_store.entries.sentence(pq_store.column("ids"))
    chosen = np.random.default_rng(99).choice(len(ids), 300, replace=False)
    queries = pq_store.column("keys")[chosen].astype(np.float32)
    sentence = dict(zip(ids.tolist(), own.tolist(), strict=True))

    def in_own(row: int, entry: int) -> bool:
        return bool(sentence[entry] == own[chosen[row]])

    nearest = naive(pq_store, queries, 16, in_own)[0]
    found = either.candidates(queries, 24).ids
    hits = 0
    for row, exact in enumerate(nearest.tolist()):
        others = [entry for entry in found[row].tolist() if not in_own(row, entry)][:16]
        hits += len(set(others) & set(exact))
    assert hits / nearest.size == pytest.approx(read_config(directory).recall["16"], abs=0.03)
    assert 0.3 < hits / nearest.size < 1


def test_wider_means_more_lists_and_more_candidates(either: IVFPQ, queries: Queries) -> None:
    narrow, wide = either.candidates(queries, 4), either.candidates(queries, 4, widen=4)
    assert narrow.ids.shape[1] == 4
    assert wide.ids.shape[1] == 16
    assert (wide.estimates[:, :4] <= narrow.estimates).all()


def test_as_wide_as_there_are_entries_it_gives_all(pq_store: MemoryStore, either: IVFPQ, queries: Queries) -> None:
    found = either.candidates(queries[:3], 2, widen=6_000)
    assert (np.sort(found.ids, axis=1) == pq_store.column("ids")).all()
    assert (np.diff(found.estimates, axis=1) >= 0).all()


def test_opened_again_or_held_in_memory_it_gives_the_same(pq_store: MemoryStore, queries: Queries) -> None:
    first, *others = [opened(pq_store, in_memory).candidates(queries, 16) for in_memory in (False, False, True)]
    for other in others:
        assert (other.ids == first.ids).all()
        assert (other.estimates == first.estimates).all()


def test_it_is_mapped_unless_held_in_memory(tmp_path: Path) -> None:
    entries = Entries([MemorySegment(1, clustered(np.random.default_rng(8), 2_000, 8))])
    build_index(entries, tmp_path, "ivfpq")
    held = IVFPQ.open(tmp_path, read_config(tmp_path), entries, in_memory=True)
    assert str(tmp_path / FILE) not in Path("/proc/self/maps").read_text()
    mapped = IVFPQ.open(tmp_path, read_config(tmp_path), entries)
    assert str(tmp_path / FILE) in Path("/proc/self/maps").read_text()
    assert (held.in_memory, mapped.in_memory) == (True, False)
    assert held.faiss_index.precomputed_table.size() == mapped.faiss_index.precomputed_table.size() == 0


def test_bytes_per_entry(pq_store: MemoryStore, directory: Path) -> None:
    """A code of 32 bytes and an id; centres and code words are all else."""
    rest = 4 * 32 * (153 + 256)
    assert (directory / FILE).stat().st_size == pytest.approx(6_000 * (32 + 8) + rest, rel=0.02)


def test_the_same_entries_give_the_same_index(tmp_path: Path) -> None:
    entries = Entries([MemorySegment(1, clustered(np.random.default_rng(6), 3_000, 8))])
    for name in ("a", "b"):
        build_index(entries, tmp_path / name, "ivfpq")
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    assert read_config(tmp_path / "a") == read_config(tmp_path / "b")


@pytest.mark.parametrize(
    ("entries", "dim", "name"),
    [
        (1, 8, "IVF1,PQ8x1"),
        (2, 1, "IVF1,PQ1x1"),
        (40, 7, "IVF1,PQ7x5"),
        (300, 67, "IVF7,PQ1x7"),
        (700, 96, "IVF17,PQ48"),
        (700, 128, "IVF17,PQ64"),
    ],
)
def test_small_stores_and_keys_can_be_indexed_too(tmp_path: Path, entries: int, dim: int, name: str) -> None:
    segment = MemorySegment(1, clustered(np.random.default_rng(7), entries, dim), sentence_length=1)
    build_index(Entries([segment]), tmp_path, "ivfpq")
    config = read_config(tmp_path)
    assert config.index == name
    index = IVFPQ.open(tmp_path, config, Entries([segment]))
    found = index.candidates(segment.keys[:3].astype(np.float32), 1, widen=entries)
    assert (np.sort(found.ids, axis=1) == segment.ids).all()
    assert np.isfinite(found.estimates).all()


def damage_nothing_left(path: Path) -> None:
    os.remove(path)


def damage_cut_short(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


def damage_garbage(path: Path) -> None:
    path.write_bytes(b"\x07" * path.stat().st_size)


@pytest.mark.parametrize(
    ("damage", "says"),
    [(damage_nothing_left, "is missing"), (damage_cut_short, "where it should have"), (damage_garbage, "is damaged")],
)
def test_damaged_file_is_a_sentence(tmp_path: Path, damage: Callable[[Path], None], says: str, in_memory: bool) -> None:
    entries = Entries([MemorySegment(1, clustered(np.random.default_rng(8), 500, 8))])
    build_index(entries, tmp_path, "ivfpq")
    damage(tmp_path / FILE)
    with pytest.raises(StoreError, match=rf"{FILE} .*{says}.*knnmt build"):
        IVFPQ.open(tmp_path, read_config(tmp_path), entries, in_memory)


def test_file_of_another_index_is_a_sentence(tmp_path: Path) -> None:
    for name, count in (("a", 500), ("b", 600)):
        entries = Entries([MemorySegment(1, clustered(np.random.default_rng(8), count, 8))])
        build_index(entries, tmp_path / name, "ivfpq")
    config = read_config(tmp_path / "b")
    os.replace(tmp_path / "a" / FILE, tmp_path / "b" / FILE)
    config.files[FILE] = (tmp_path / "b" / FILE).stat().st_size
    with pytest.raises(StoreError, match=r"is not what the config beside it says; .*knnmt build"):
        IVFPQ.open(tmp_path / "b", config, entries)


def test_no_room_for_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()  # nothing can be written under this name
    with pytest.raises(StoreError, match="cannot write"):
        build_index(Entries([MemorySegment(1, clustered(np.random.default_rng(9), 500, 8))]), tmp_path, "ivfpq")
    assert not (tmp_path / "config.json").exists()
