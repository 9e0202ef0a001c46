"""Every file that the manifest names is compared with its checksum, and content that cannot be is found."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.datastore import Store, StoreWriter, verify_files
from knnmt.datastore.files import checksum
from knnmt.errors import StoreError


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as writer:
        directory = writer.new_directory("combiners", "robust")
        for name in ("config.json", "model.safetensors"):
            (directory / name).write_text(f"the {name} of a combiner")
        writer.commit(combiner=("robust", directory))
        index = writer.new_directory("index")
        for name in ("config.json", "index.faiss", "fastscan.faiss"):
            (index / name).write_text(f"the {name} of an index")
        return writer.commit(index=index)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_flipped_bit_of_a_combiner(store: Store, name: str) -> None:
    assert verify_files(store.path) == []
    flip(store.combiners["robust"] / name)
    (problem,) = verify_files(store.path)
    assert name in problem
    assert "checksum" in problem
    assert "knnmt fit" in problem


@pytest.mark.parametrize("name", ["config.json", "index.faiss", "fastscan.faiss"])
def test_a_flipped_bit_of_an_index(store: Store, name: str) -> None:
    assert store.index_directory is not None
    flip(store.index_directory / name)
    (problem,) = verify_files(store.path)
    assert name in problem
    assert "knnmt build" in problem


def test_a_lost_file_of_an_index(store: Store) -> None:
    assert store.index_directory is not None
    (store.index_directory / "fastscan.faiss").unlink()
    (problem,) = verify_files(store.path)
    assert "fastscan.faiss is missing" in problem


def damaged(path: Path, column: str, row: int, value: Any) -> None:
    """A store whose file holds nonsense that its checksum agrees with."""
    file = path / f"segments/000001/{column}.npy"
    array = np.load(file)
    array[row] = value
    np.save(file, array)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["segments"][0]["files"][file.name]["blake2b"] = checksum(file)
    (path / "manifest.json").write_text(json.dumps(manifest))


NONSENSE = [
    ("keys", np.nan, "not finite"),
    ("keys", np.inf, "not finite"),
    ("values", -1, "vocabulary"),
    ("values", 1000, "vocabulary"),
    ("confidence", np.nan, "not finite"),
    ("confidence", -np.inf, "not finite"),
    ("sentence", 14, "sentences that are not in the table"),
]


@pytest.mark.parametrize(("column", "value", "words"), NONSENSE)
def test_nonsense_is_found_when_a_store_is_opened(store: Store, column: str, value: Any, words: str) -> None:
    damaged(store.path, column, -1, value)
    with pytest.raises(StoreError, match=rf"^damaged: .*{column}.npy .*{words}"):
        Store.open(store.path)
    (problem,) = verify_files(store.path)
    assert words in problem


def test_nonsense_that_no_sample_shows(scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    monkeypatch.setattr("knnmt.datastore.segment._SAMPLE", 2)
    damaged(tmp_path / "s", "values", 5, 5000)
    Store.open(tmp_path / "s")
    (problem,) = verify_files(tmp_path / "s")
    assert "vocabulary" in problem
