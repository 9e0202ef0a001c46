"""Adding to a store: tails, new directories, the lock, and what is left behind."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.datastore import Store, StoreWriter, verify_files, writer
from knnmt.datastore.manifest import Manifest, write_manifest
from knnmt.errors import StoreError


def tree(path: Path) -> list[str]:
    return sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*"))


def texts(store: Store) -> list[str]:
    return [source for segment in store.segments for source in segment.sentence_table["source"].to_pylist()]


def joined(blocks: list[Any], column: str) -> Any:
    return np.concatenate([getattr(block, column) for block in blocks])


def test_a_small_tail_is_written_anew_with_what_is_added(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    store = scenario.build(tmp_path / "s", "second", scenario.SECOND)
    (segment,) = store.segments
    assert segment.name == "000002"
    both = scenario.SECOND + scenario.FIRST  # the older entries stand behind the new ones
    for column in ("keys", "values", "confidence"):
        assert (getattr(segment, column) == joined(both, column)).all()
    lengths = [length for block in both for length in block.lengths]
    assert segment.sentence.tolist() == [n for n, length in enumerate(lengths) for _ in range(length)]
    assert segment.position.tolist() == [n for length in lengths for n in range(length)]
    assert texts(store) == [pair.source for block in both for pair in block.pairs]
    assert verify_files(store.path) == []


def test_a_segment_number_is_never_given_twice(scenario: ModuleType, tmp_path: Path) -> None:
    """Though the highest one has gone: an id of an older index must not name another entry."""
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    manifest = json.loads((tmp_path / "s/manifest.json").read_text())
    (tmp_path / "s/manifest.json").write_text(json.dumps(manifest | {"next_segment": 7}))
    store = scenario.second_build(tmp_path / "s")
    assert store.segments[-1].name == "000007"
    assert store.manifest.next_segment == 8


def test_a_large_tail_stays(scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    monkeypatch.setattr(writer, "TAIL_ENTRIES", first.entry_count)
    store = scenario.build(tmp_path / "s", "second", scenario.SECOND)
    assert store.manifest.segments[0] == first.manifest.segments[0]
    assert len(store.segments) == 2
    monkeypatch.setattr(writer, "TAIL_ENTRIES", len(store.segments[1]) + 1)
    third = scenario.build(tmp_path / "s", "third", scenario.FIRST)
    assert [segment.name for segment in third.segments] == ["000001", "000003"]


def test_a_tail_in_the_index_stays(scenario: ModuleType, tmp_path: Path) -> None:
    first = scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    assert first.covered_segments() == {"000001"}
    store = scenario.build(tmp_path / "s", "second", scenario.SECOND)
    assert [segment.name for segment in store.segments] == ["000001", "000002"]
    assert store.index_directory == first.index_directory
    third = scenario.build(tmp_path / "s", "third", scenario.FIRST)
    assert [segment.name for segment in third.segments] == ["000001", "000003"]


def test_a_damaged_tail_is_not_given_a_new_checksum(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    file = store.segments[0].path / "keys.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(StoreError, match=r"keys.npy is damaged"):
        scenario.build(tmp_path / "s", "second", scenario.SECOND)
    assert Store.open(tmp_path / "s").manifest == store.manifest


def test_a_plan_whose_tail_was_put_in_the_index_meanwhile(scenario: ModuleType, tmp_path: Path) -> None:
    """The entries of the tail must not be in the store twice."""
    first = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        staged = adding.stage("second")
        for block in scenario.SECOND:
            staged.append(block.keys, block.values, block.confidence, block.lengths, block.pairs, {})
        assert len(adding.plan(staged).segments) == 1
        index = adding.new_directory("index")
        (index / "config.json").write_text(json.dumps({"segments": ["000001"]}))
        adding.commit(index=index)
        assert staged.blocks == 3, "work under way is not swept by a commit of something else"
        plan = adding.plan(staged)
        assert [len(segment) for segment in plan.segments] == [first.entry_count, staged.rows]
        store = adding.commit(plan)
    assert store.entry_count == first.entry_count + staged.rows
    assert verify_files(store.path) == []


def test_the_plan_is_what_the_store_becomes(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        staged = adding.stage("second")
        for block in scenario.SECOND:
            staged.append(block.keys, block.values, block.confidence, block.lengths, block.pairs, {})
        plan = adding.plan(staged)
        assert Store.open(tmp_path / "s").entry_count == len(plan.segments[0])
        keys = [segment.keys.copy() for segment in plan.segments]
        store = adding.commit(plan)
        assert adding.store is store
    assert [s.record for s in store.segments] == [s.record for s in plan.segments]
    for segment, planned, before in zip(store.segments, plan.segments, keys, strict=True):
        assert (segment.keys == before).all()
        assert (planned.keys == before).all(), "a planned segment can be read after the commit too"


def test_nothing_to_add(scenario: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing to store"):
        scenario.build(tmp_path / "new", "none", [])
    assert not (tmp_path / "new").exists()
    with pytest.raises(StoreError, match="nothing to store"):
        scenario.build(tmp_path / "new", "none", [scenario.make_block(1, sentences=0)])
    first = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    store = scenario.build(tmp_path / "s", "none", [scenario.make_block(1, sentences=0)])
    assert store.manifest == first.manifest
    assert not (tmp_path / "s/staging").exists()


def test_combiners_and_indexes_are_new_directories_each_time(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    for name, expected in [
        ("robust", "robust.000001"),
        ("robust", "robust.000002"),
        ("robust.2", "robust.2.000001"),
        ("robust", "robust.000003"),
    ]:
        with StoreWriter(tmp_path / "s", scenario.MODEL) as fitting:
            directory = fitting.new_directory("combiners", name)
            assert directory.name == expected
            (directory / "config.json").write_text(expected)
            store = fitting.commit(combiner=(name, directory))
    assert {name: (path / "config.json").read_text() for name, path in store.combiners.items()} == {
        "robust": "robust.000003",
        "robust.2": "robust.2.000001",
    }
    with StoreWriter(tmp_path / "s", scenario.MODEL) as indexing:
        assert tree(tmp_path / "s/combiners")[::2] == ["robust.000003", "robust.2.000001"], "old ones are swept"
        index = indexing.new_directory("index")
        assert index.name == "000002"
        (index / "config.json").write_text('{"segments": []}')
        assert indexing.commit(index=index).index_directory == index
    assert store.combiners == Store.open(tmp_path / "s").combiners


def test_a_number_the_manifest_names_is_not_given_out_again(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    (store.index_directory / "config.json").unlink()
    store.index_directory.rmdir()
    with StoreWriter(tmp_path / "s", scenario.MODEL) as indexing:
        assert indexing.new_directory("index").name == "000002"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", ".hidden"])
def test_names_a_combiner_cannot_have(scenario: ModuleType, tmp_path: Path, name: str) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    with (
        StoreWriter(tmp_path / "s", scenario.MODEL) as fitting,
        pytest.raises(StoreError, match="cannot name a combiner; use letters"),
    ):
        fitting.new_directory("combiners", name)


def test_without_a_commit_nothing_stays(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    before = tree(tmp_path / "s")

    def give_up() -> None:
        with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
            (adding.new_directory("index") / "half").write_text("an index")
            (adding.new_directory("combiners", "robust") / "half").write_text("a combiner")
            adding.stage("second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert tree(tmp_path / "s") == before


def test_what_the_manifest_does_not_name_is_swept(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    kept = tree(tmp_path / "s")
    for name in ("segments/000007", "index/000005", "combiners/robust.000001", "segments/junk"):
        (tmp_path / "s" / name).mkdir(parents=True)
        (tmp_path / "s" / name / "keys.npy").write_text("x")
    (tmp_path / "s/segments/stray").write_text("x")
    (tmp_path / "s/manifest.json.new").write_text("{")
    with StoreWriter(tmp_path / "s", scenario.MODEL):
        pass
    assert tree(tmp_path / "s") == kept


def test_staged_work_under_another_key(scenario: ModuleType, tmp_path: Path) -> None:
    block = scenario.SECOND[0]
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        staged = adding.stage("other")
        staged.append(block.keys, block.values, block.confidence, block.lengths, block.pairs, {})
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        assert adding.store is None
        assert adding.stage("new").blocks == 0
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        assert adding.stage("other").blocks == 1, "another build's commit does not remove it"
        adding.commit(adding.plan(adding.stage("other")))
    assert not (tmp_path / "s/staging").exists(), "its own does"


def test_staged_work_is_dropped_when_asked(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    block = scenario.SECOND[0]
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        staged = adding.stage("other")
        staged.append(block.keys, block.values, block.confidence, block.lengths, block.pairs, {})
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        assert adding.drop_staged() == 1
        assert adding.drop_staged() == 0
    assert not (tmp_path / "s/staging").exists()
    assert Store.open(tmp_path / "s").manifest == store.manifest


@pytest.mark.parametrize("name", ["new", "new/within/new", "empty"])
def test_a_writer_that_writes_nothing_leaves_nothing(scenario: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with StoreWriter(tmp_path / name, scenario.MODEL) as idle:
        assert idle.store is None
        idle.stage("key")
        idle.new_directory("index")
    assert tree(tmp_path) == ["empty"]


def test_a_directory_of_somebody_else(scenario: ModuleType, tmp_path: Path) -> None:
    for name in ("notes.txt", "index/page.html", "staging/x/y"):
        directory = tmp_path / name.replace("/", "-")
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("mine")
        before = tree(directory)
        with (
            pytest.raises(StoreError, match="neither empty nor a store; choose another directory"),
            StoreWriter(directory, scenario.MODEL),
        ):
            pass
        assert tree(directory) == before


def test_one_writer_at_a_time(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    program = (
        "import runpy, sys, pathlib\n"
        "scenario = runpy.run_path(sys.argv[1])\n"
        "try:\n"
        "    scenario['second_build'](pathlib.Path(sys.argv[2]))\n"
        "except scenario['StoreError'] as error:\n"
        "    print(error)\n"
    )
    for path in (tmp_path / "s", tmp_path / "new"):
        with StoreWriter(path, scenario.MODEL):
            command = [sys.executable, "-c", program, str(scenario.__file__), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            assert done.stdout == f"another process is writing to {path}; wait until it has finished\n"
            with pytest.raises(StoreError, match="another process"), StoreWriter(path, scenario.MODEL):
                pass
    assert Store.open(tmp_path / "s").manifest == store.manifest
    assert not (tmp_path / "new").exists()
    assert scenario.second_build(tmp_path / "s").entry_count > store.entry_count


def test_a_writer_that_waits(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    first = StoreWriter(tmp_path / "s", scenario.MODEL)
    first.__enter__()
    said: list[str] = []

    class Release(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            first.__exit__(None, None, None)

    release = Release()
    logging.getLogger("knnmt").addHandler(release)
    try:
        with StoreWriter(tmp_path / "s", scenario.MODEL, wait=True) as second:
            assert second.store is not None
    finally:
        logging.getLogger("knnmt").removeHandler(release)
    assert said == [f"another process is writing to {tmp_path / 's'}; waiting until it has finished."]


def test_readers_need_no_lock(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "s", "first", scenario.FIRST)
    with StoreWriter(tmp_path / "s", scenario.MODEL):
        assert Store.open(tmp_path / "s").entry_count == store.entry_count


def test_only_what_the_writer_gave_out_is_committed(scenario: ModuleType, tmp_path: Path) -> None:
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    with StoreWriter(tmp_path / "s", scenario.MODEL) as adding:
        with pytest.raises(ValueError, match="new_directory"):
            adding.commit(index=tmp_path)
        with pytest.raises(ValueError, match="name"):
            adding.new_directory("combiners")
    with StoreWriter(tmp_path / "new", scenario.MODEL) as beginning:
        index = beginning.new_directory("index")
        with pytest.raises(ValueError, match="begins with a segment"):
            beginning.commit(index=index)


def test_a_commit_that_fails_after_the_manifest_was_replaced(
    scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is the new one then, and tidying up must leave it whole."""
    scenario.build(tmp_path / "s", "first", scenario.FIRST)

    def replace_and_fail(path: Path, manifest: Manifest) -> None:
        write_manifest(path, manifest)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "write_manifest", replace_and_fail)
        with pytest.raises(StoreError, match="Input/output error"):
            scenario.second_build(tmp_path / "s")
    store = Store.open(tmp_path / "s")
    assert verify_files(store.path) == []
    assert store.covered_segments() == {"000002"}
    again = scenario.second_build(tmp_path / "s")
    assert again.manifest.segments == store.manifest.segments, "committed once, not twice"
