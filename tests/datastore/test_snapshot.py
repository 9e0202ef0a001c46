"""A store that is open stays what it was, whatever writers do meanwhile."""

import gc
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knnmt.datastore import Store, StoreWriter
from knnmt.errors import StoreError


def add_combiner(path: Path, scenario: ModuleType, text: str) -> Store:
    with StoreWriter(path, scenario.MODEL) as writer:
        directory = writer.new_directory("combiners", "robust")
        (directory / "config.json").write_text(text)
        return writer.commit(combiner=("robust", directory))


@pytest.fixture
def path(scenario: ModuleType, tmp_path: Path) -> Path:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    add_combiner(tmp_path / "s", scenario, "old")
    return tmp_path / "s"


def test_an_open_store_is_given_back_as_it_is(scenario: ModuleType, path: Path) -> None:
    store = Store.open(path)
    scenario.second_build(path)
    assert Store.open(store) is store
    newest = store.latest()
    assert newest.entry_count > store.entry_count
    assert newest.latest() is newest


def test_two_later_writers_leave_the_index_and_the_combiners_of_a_reader(scenario: ModuleType, path: Path) -> None:
    reader = Store.open(path)
    assert reader.index_directory is not None
    for text in ("newer", "newest"):
        scenario.build(path, text, scenario.SECOND, index=True)
        add_combiner(path, scenario, text)
    with StoreWriter(path, scenario.MODEL):
        pass
    assert (reader.index_directory / "config.json").is_file()
    assert (reader.combiners["robust"] / "config.json").read_text() == "old"
    assert reader.latest().index_directory != reader.index_directory


def test_what_no_reader_holds_is_removed(scenario: ModuleType, path: Path) -> None:
    reader = Store.open(path)
    old = reader.combiners["robust"]
    add_combiner(path, scenario, "newer")
    del reader
    gc.collect()
    with StoreWriter(path, scenario.MODEL):
        pass
    assert not old.exists()


def test_a_reader_that_comes_between_manifest_and_sweep(
    scenario: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the manifest; before it opens what that names, two writers come and go."""
    opened = os.open
    ran: list[str] = []

    def slow(name: str, *arguments: Any, **options: Any) -> int:
        if "combiners" in str(name) and not ran:
            ran.append(name)
            add_combiner(path, scenario, "newer")
            with StoreWriter(path, scenario.MODEL):
                pass
        return opened(name, *arguments, **options)

    monkeypatch.setattr(os, "open", slow)
    store = Store.open(path)
    assert ran
    assert store.combiners["robust"].name == "robust.000002"
    assert (store.combiners["robust"] / "config.json").read_text() == "newer"


def test_a_directory_without_permission_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the refusal is made here."""
    stat = os.stat

    def refused(name: str, *arguments: Any, **options: Any) -> os.stat_result:
        if "segments" in str(name):
            raise PermissionError(13, "Permission denied", str(name))
        return stat(name, *arguments, **options)

    monkeypatch.setattr(os, "stat", refused)
    with pytest.raises(StoreError, match=r"segments.*Permission denied; ask its owner") as caught:
        Store.open(path)
    assert "restore" not in str(caught.value)
