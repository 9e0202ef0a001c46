"""Damage: truncation is found when a store is opened, anything else by verify."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.datastore import Store, verify_files
from knnmt.datastore.segment import FILES
from knnmt.errors import StoreError


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    built: Store = scenario.build(tmp_path / "store", "first", scenario.FIRST, index=True)
    return built


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file(store: Store, name: str) -> None:
    file = store.segments[0].path / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StoreError, match=rf"{name} has .* bytes where .*restore it .* or build"):
        Store.open(store.path)
    assert len(verify_files(store.path)) == 1


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(store: Store, name: str) -> None:
    (store.segments[0].path / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        Store.open(store.path)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte(store: Store, name: str) -> None:
    assert verify_files(store.path) == []
    file = store.segments[0].path / name
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(content)
    problems = verify_files(store.path)
    assert len(problems) == 1
    assert str(file) in problems[0]


def test_every_damaged_file_is_told(store: Store) -> None:
    for name in ("keys.npy", "values.npy"):
        file = store.segments[0].path / name
        file.write_bytes(file.read_bytes()[:-1] + b"\x7b")
    assert store.index_directory is not None
    (store.index_directory / "config.json").unlink()
    found = verify_files(store.path)
    assert [name for name in ("keys.npy", "values.npy", "config.json") if any(name in each for each in found)] == [
        "keys.npy",
        "values.npy",
        "config.json",
    ]
    assert store.covered_segments() == {"000001"}, "a snapshot stays what it was"


def test_a_file_of_the_right_size_and_the_wrong_kind(store: Store) -> None:
    directory = store.segments[0].path
    values = np.load(directory / "values.npy")
    np.save(directory / "values.npy", values.astype(np.float32))
    with pytest.raises(StoreError, match=r"values.npy holds float32"):
        Store.open(store.path)
    np.save(directory / "values.npy", values)
    Store.open(store.path)
    for name in ("keys.npy", "sentences.arrow"):
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(bytes(len(content)))
        with pytest.raises(StoreError, match=name):
            Store.open(store.path)
        (directory / name).write_bytes(content)


def test_arrays_are_mapped_and_cannot_be_changed(store: Store) -> None:
    segment = Store.open(store.path).segments[0]
    for array in (segment.keys, segment.values, segment.confidence, segment.sentence, segment.position):
        assert isinstance(array.base, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
