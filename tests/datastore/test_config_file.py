"""Configs of indexes and combiners belong to the snapshot."""

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knnmt.datastore import ConfigFile, Store, StoreWriter


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as writer:
        directory = writer.new_directory("combiners", "robust")
        (directory / "config.json").write_text('{"method": "robust", "record": {"nll": 1.5}}')
        return writer.commit(combiner=("robust", directory))


def configs(store: Store) -> list[ConfigFile]:
    assert store.index_config is not None
    return [store.index_config, store.combiner_configs["robust"]]


def test_a_snapshot_keeps_what_they_said(store: Store) -> None:
    before = [config.fields for config in configs(store)]
    assert before == [{"segments": ["000001"]}, {"method": "robust", "record": {"nll": 1.5}}]
    for config in configs(store):
        (config.directory / "config.json").write_text("{}")
    assert [config.fields for config in configs(store)] == before
    assert store.covered_segments() == {"000001"}
    assert [config.fields for config in configs(Store.open(store.path))] == [{}, {}]


def test_nobody_can_change_it(store: Store) -> None:
    store.combiner_configs["robust"].fields["record"]["nll"] = 0
    assert store.combiner_configs["robust"].fields["record"] == {"nll": 1.5}


@pytest.mark.parametrize("text", [None, "", "{", "[]", "null", "5", "\udcff"])
def test_one_that_is_lost_does_not_keep_the_store_from_opening(store: Store, text: str | None) -> None:
    for config, fix in zip(configs(store), ("knnmt build", "knnmt fit"), strict=True):
        file = config.directory / "config.json"
        if text is None:
            file.unlink()
        else:
            file.write_bytes(text.encode(errors="surrogateescape"))
        opened = Store.open(store.path)
        problem = configs(opened)[0 if fix == "knnmt build" else 1].problem
        assert problem is not None
        assert problem.startswith(f"{file} is {'missing' if text is None else 'damaged'}; ")
        assert fix in problem
    assert opened.covered_segments() == frozenset()
    assert [config.fields for config in configs(opened)] == [{}, {}]


def test_without_permission_nothing_is_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything, so the refusal is made here."""
    opened = io.open

    def refused(file: Any, *arguments: Any, **options: Any) -> Any:
        if Path(str(file)).name == "config.json":
            raise PermissionError(13, "Permission denied", str(file))
        return opened(file, *arguments, **options)

    monkeypatch.setattr(io, "open", refused)
    for config in configs(Store.open(store.path)):
        assert config.problem is not None
        assert "Permission denied; ask its owner" in config.problem
