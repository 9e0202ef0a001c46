import json
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from memory_store import MemoryStore, Queries, assert_nearest, read_config

from knnmt.datastore import ConfigFile, Entries, Ids
from knnmt.errors import StoreError
from knnmt.search import INDEX_KINDS, Candidates, IndexConfig, Searcher, build, build_index, kept_kind, needs_index


def test_auto_is_exact_for_few_entries_and_ivf_for_many(
    small_store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(small_store.entries, tmp_path / "few")
    assert json.loads((tmp_path / "few" / "config.json").read_text())["index"] == "Flat"
    monkeypatch.setattr(build, "FLAT_ENTRIES", 300)
    build_index(small_store.entries, tmp_path / "many")
    config = read_config(tmp_path / "many")
    assert config.index.startswith("IVF")
    assert config.requested == "auto"


def test_flat_writes_a_config_and_no_files(small_store: MemoryStore, tmp_path: Path) -> None:
    build_index(small_store.entries, tmp_path / "index", "flat")
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["config.json"]
    config = read_config(tmp_path / "index")
    assert (config.index, config.requested, config.entries) == ("Flat", "flat", 300)
    assert config.segments == {segment.name: segment.record.checksum for segment in small_store.segments}


def test_unknown_kind(small_store: MemoryStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="auto, flat, ivf, ivfpq"):
        build_index(small_store.entries, tmp_path / "index", "hnsw")
    assert not (tmp_path / "index").exists()
    with pytest.raises(StoreError, match="auto, flat, ivf, ivfpq"):
        needs_index(small_store.entries, frozenset(), "hnsw")


def test_index_is_needed_when_too_many_entries_wait(small_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FLAT_ENTRIES", 130)
    assert needs_index(small_store.entries, frozenset())
    assert needs_index(small_store.entries, frozenset({"000001"}))  # 10 and 170 entries wait
    assert not needs_index(small_store.entries, frozenset({"000009"}))  # 120 and 10 entries wait
    assert not needs_index(small_store.entries, frozenset({"000001", "000002", "000009"}))
    assert needs_index(small_store.entries, frozenset({"000001", "000002", "000009"}), "flat")


def test_who_chose_a_kind_keeps_it(small_store: MemoryStore, tmp_path: Path) -> None:
    def config(name: str) -> ConfigFile:
        return ConfigFile.read(tmp_path / name, "")

    assert kept_kind(None, "auto") == "auto"
    assert kept_kind(config("nowhere"), "auto") == "auto"
    build_index(small_store.entries, tmp_path / "chosen", "flat")
    build_index(small_store.entries, tmp_path / "unasked")
    assert kept_kind(config("chosen"), "auto") == "flat"
    assert kept_kind(config("chosen"), "ivf") == "ivf"
    assert kept_kind(config("unasked"), "auto") == "auto"


def test_another_kind_is_one_class_and_one_line(
    small_store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards:
        """Proposes everything, farthest first."""

        in_memory, size, coded, rescore = True, 300, True, 2

        def __init__(self, ids: Ids) -> None:
            self.ids = ids

        @classmethod
        def build(cls, entries: Entries, directory: Path) -> IndexConfig:
            (directory / "note").write_text("here")
            return replace(INDEX_KINDS["flat"].build(entries, directory), kind="backwards", index="Backwards")

        @classmethod
        def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool) -> Self:
            assert (directory / "note").read_text() == "here"
            return cls(entries.ids(np.arange(len(entries))))

        def candidates(self, queries: Queries, k: int, widen: int = 1) -> Candidates:
            ids = np.tile(self.ids[::-1], (len(queries), 1))
            return Candidates(ids, np.arange(ids.size, dtype=np.float32).reshape(ids.shape))

    monkeypatch.setitem(INDEX_KINDS, "backwards", Backwards)
    build_index(small_store.entries, tmp_path / "index", "backwards")
    store = MemoryStore(small_store.segments, tmp_path / "index")
    queries = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    assert_nearest(store, queries, Searcher(store).search(queries, 5).ids)
    by_code = Searcher(store, distances="code").search(queries, 5)
    assert (by_code.ids == store.entries.ids(np.arange(299, 294, -1))).all()
    assert (by_code.distances == np.arange(5) + 300 * np.arange(4)[:, None]).all()
