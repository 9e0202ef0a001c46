import json
from dataclasses import replace

import numpy as np
import pytest

from knnmt.datastore import ConfigFile
from knnmt.errors import StoreError
from knnmt.search import INDEX_KINDS, Searcher, build, build_index, kept_kind, needs_index


def test_auto_is_exact_for_few_entries_and_ivf_for_many(small_store, toolbox, tmp_path, monkeypatch):
    build_index(small_store.entries, tmp_path / "few")
    assert json.loads((tmp_path / "few" / "config.json").read_text())["index"] == "Flat"
    monkeypatch.setattr(build, "FLAT_ENTRIES", 300)
    build_index(small_store.entries, tmp_path / "many")
    config = toolbox.read_config(tmp_path / "many")
    assert config.index.startswith("IVF")
    assert config.requested == "auto"


def test_flat_writes_a_config_and_no_files(small_store, toolbox, tmp_path):
    build_index(small_store.entries, tmp_path / "index", "flat")
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["config.json"]
    config = toolbox.read_config(tmp_path / "index")
    assert (config.index, config.requested, config.entries) == ("Flat", "flat", 300)
    assert config.segments == {segment.name: segment.record.checksum for segment in small_store.segments}


def test_unknown_kind(small_store, tmp_path):
    with pytest.raises(StoreError, match="auto, flat, ivf"):
        build_index(small_store.entries, tmp_path / "index", "hnsw")
    assert not (tmp_path / "index").exists()
    with pytest.raises(StoreError, match="auto, flat, ivf"):
        needs_index(small_store.segments, frozenset(), "hnsw")


def test_index_is_needed_when_too_many_entries_wait(small_store, monkeypatch):
    monkeypatch.setattr(build, "FLAT_ENTRIES", 130)
    assert needs_index(small_store.segments, frozenset())
    assert needs_index(small_store.segments, frozenset({"000001"}))  # 10 and 170 entries wait
    assert not needs_index(small_store.segments, frozenset({"000009"}))  # 120 and 10 entries wait
    assert not needs_index(small_store.segments, frozenset({"000001", "000002", "000009"}))
    assert needs_index(small_store.segments, frozenset({"000001", "000002", "000009"}), "flat")


def test_who_chose_a_kind_keeps_it(small_store, tmp_path):
    def config(name):
        return ConfigFile.read(tmp_path / name, "")

    assert kept_kind(None, "auto") == "auto"
    assert kept_kind(config("nowhere"), "auto") == "auto"
    build_index(small_store.entries, tmp_path / "chosen", "flat")
    build_index(small_store.entries, tmp_path / "unasked")
    assert kept_kind(config("chosen"), "auto") == "flat"
    assert kept_kind(config("chosen"), "ivf") == "ivf"
    assert kept_kind(config("unasked"), "auto") == "auto"


def test_another_kind_is_one_class_and_one_line(small_store, toolbox, tmp_path, monkeypatch):
    class Backwards:
        """Proposes everything, farthest first."""

        in_memory, size = True, 300

        @classmethod
        def build(cls, entries, directory):
            (directory / "note").write_text("here")
            return replace(INDEX_KINDS["flat"].build(entries, directory), kind="backwards", index="Backwards")

        @classmethod
        def open(cls, directory, config, entries, in_memory):
            assert (directory / "note").read_text() == "here"
            index = cls()
            index.ids = entries.ids(np.arange(len(entries)))
            return index

        def candidates(self, queries, k, widen=1):
            return np.tile(self.ids[::-1], (len(queries), 1))

    monkeypatch.setitem(INDEX_KINDS, "backwards", Backwards)
    build_index(small_store.entries, tmp_path / "index", "backwards")
    store = toolbox.MemoryStore(small_store.segments, tmp_path / "index")
    queries = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    toolbox.assert_nearest(store, queries, Searcher(store).search(queries, 5).ids)
