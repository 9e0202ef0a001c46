"""manifest.json: what is refused, and that it is replaced whole."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knnmt.datastore import Store, StoreWriter, verify_files
from knnmt.datastore.files import write_json
from knnmt.errors import StoreError

A_FILE = {"bytes": 1, "blake2b": "0" * 32}


@pytest.fixture
def manifest(scenario: ModuleType, tmp_path: Path) -> Path:
    store: Store = scenario.build(tmp_path / "store", "first", scenario.FIRST, index=True)
    return store.path / "manifest.json"


def edit(manifest: Path, **changes: Any) -> None:
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))


def test_its_content(scenario: ModuleType, manifest: Path) -> None:
    value = json.loads(manifest.read_text())
    assert list(value) == [
        "format",
        "model",
        "segments",
        "next_segment",
        "sources",
        "indexes",
        "views",
        "combiners",
        "default",
    ]
    assert value["format"] == 3
    assert value["model"]["dim"] == scenario.DIM
    assert value["indexes"]["main"]["directory"] == "index/000001"
    assert set(value["indexes"]["main"]["files"]) == {"config.json"}
    (segment,) = value["segments"]
    assert segment["sentences"] == 14
    for part, directory in ((segment, "segments/000001"), (value["indexes"]["main"], "index/000001")):
        for name, file in part["files"].items():
            assert file["bytes"] == (manifest.parent / directory / name).stat().st_size
            assert len(file["blake2b"]) == 32


def test_format_1_is_read(manifest: Path) -> None:
    """It had no checksums of indexes and combiners, and no choice of a default."""
    value = json.loads(manifest.read_text())
    before = Store.open(manifest.parent)
    value |= {"format": 1, "index": "index/000001", "combiners": {"robust": "combiners/robust.000001"}}
    del value["default"], value["next_segment"], value["indexes"], value["views"]
    manifest.write_text(json.dumps(value))
    store = Store.open(manifest.parent)
    assert store.index_directory == before.index_directory
    assert store.combiners == {"robust": manifest.parent / "combiners/robust.000001"}
    assert store.manifest.default is None
    assert store.manifest.next_segment == 2
    (problem,) = verify_files(manifest.parent)
    assert "robust.000001/config.json is missing" in problem


@pytest.mark.parametrize("index", [True, False])
def test_format_2_is_read_and_written_as_3(scenario: ModuleType, manifest: Path, index: bool) -> None:
    """It had one index, without a name, and no views; entries were called pairs."""
    before = Store.open(manifest.parent)
    value = json.loads(manifest.read_text())
    value |= {"format": 2, "index": value["indexes"]["main"] if index else None}
    del value["indexes"], value["views"]
    for segment in value["segments"]:
        segment["pairs"] = segment.pop("entries")
    manifest.write_text(json.dumps(value))
    store = Store.open(manifest.parent)
    assert store.index_directory == (before.index_directory if index else None)
    assert store.manifest.segments == before.manifest.segments
    assert json.loads(manifest.read_text())["format"] == 2, "reading changes nothing"
    with StoreWriter(manifest.parent, scenario.MODEL) as writer:
        writer.choose("base")
    value = json.loads(manifest.read_text())
    assert (value["format"], set(value["indexes"]), value["views"]) == (3, {"main"} if index else set(), {})
    assert "index" not in value
    assert [segment["entries"] for segment in value["segments"]] == [before.entry_count]
    assert verify_files(manifest.parent) == []


def test_a_newer_format(scenario: ModuleType, manifest: Path) -> None:
    stray = manifest.parent / "segments" / "000009"
    stray.mkdir()
    edit(manifest, format=4, segments="in a form nobody knows yet")
    with pytest.raises(StoreError, match=r"format 4 .*upgrade"):
        Store.open(manifest.parent)
    with pytest.raises(StoreError, match="upgrade"), StoreWriter(manifest.parent, scenario.MODEL):
        pass
    assert stray.exists(), "what a newer version keeps there is not ours to sweep"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', '{"format": "one"}', "\udcff"])
def test_damage(manifest: Path, content: str) -> None:
    manifest.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=r"manifest.json is damaged; restore"):
        Store.open(manifest.parent)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2, "index": "../elsewhere"},
        {"indexes": {"main": {"directory": "../elsewhere", "files": {}}}},
        {"indexes": {"main": {"directory": "/etc", "files": {}}}},
        {"indexes": {"../main": {"directory": "index/000001", "files": {}}}},
        {"views": {"v": {"mask": {"directory": "views/../v.000001", "files": {}}, "index": None}}},
        {"views": {"v": {"mask": {"directory": "views/v.000001", "files": {"a": A_FILE}}, "index": None}}},
        {"views": {"v": {"mask": {"directory": "views/v.000001", "files": {}}, "index": "not there"}}},
        {"combiners": {"robust": "combiners/../../robust.000001"}},
        {"combiners": {"../robust": "combiners/robust.000001"}},
        {"segments": [{"name": "../1", "entries": 1, "sentences": 1, "files": {}}]},
    ],
)
def test_names_stay_within_the_store(manifest: Path, changes: dict[str, Any]) -> None:
    edit(manifest, **changes)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(manifest.parent)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no store at .*knnmt build"):
        Store.open(tmp_path / "none")
    with pytest.raises(StoreError, match="is not a store"):
        Store.open(tmp_path)
    (tmp_path / "staging" / "key").mkdir(parents=True)
    with pytest.raises(StoreError, match="unfinished build; run the same"):
        Store.open(tmp_path)


def test_an_interrupted_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="the disk is gone"):
                write_json(path, {"a": 2, "ü": [1]})
        assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, {"a": 2, "ü": [1]})
    assert json.loads(path.read_text()) == {"a": 2, "ü": [1]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.json"]
