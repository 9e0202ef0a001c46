"""A build stopped at every moment at which it touches the disk, by a kill or by a full disk."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from knnmt.datastore import Store, verify_files
from knnmt.datastore.staging import JOURNAL, SEGMENT
from knnmt.errors import StoreError


def stop_at_every_moment(scenario: ModuleType, mode: str, directory: Path, action: str, moments: int) -> list[int]:
    command = [sys.executable, str(scenario.__file__), mode, str(directory), action]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    codes: list[int] = json.loads(done.stdout)
    assert len(codes) > moments, "it touches the disk more often than that"
    assert set(codes[:-1]) == {-9 if mode == "kill" else 3}, done.stderr
    return codes


def opened(path: Path) -> Store | None:
    try:
        return Store.open(path)
    except StoreError:
        assert not (path / "manifest.json").exists()
        return None


def index_of(store: Store) -> object:
    assert store.index_directory is not None
    return json.loads((store.index_directory / "config.json").read_text())


@pytest.mark.parametrize("mode", ["kill", "full"])
@pytest.mark.parametrize("fresh", [True, False], ids=["first build", "adding"])
def test_nothing_is_lost(scenario: ModuleType, tmp_path: Path, mode: str, fresh: bool) -> None:
    first = None if fresh else scenario.build(tmp_path / "before", "first", scenario.FIRST)
    if not fresh:
        scenario.build(tmp_path / "whole", "first", scenario.FIRST)
    whole = scenario.second_build(tmp_path / "whole")
    codes = stop_at_every_moment(scenario, mode, tmp_path, "second_build", moments=60)

    resumed = put_back = committed = 0
    for number in range(len(codes) - 1):
        path = tmp_path / f"before.{number}"
        left = opened(path)
        journal = path / "staging" / "second" / JOURNAL
        if left is None or left.fingerprint != whole.fingerprint:  # the manifest was not replaced
            assert (left is None) == (first is None)
            if left is not None and first is not None:
                assert left.manifest == first.manifest
                assert verify_files(left.path) == []
            if mode == "full" and left is None:
                assert path.exists() == journal.exists(), "a directory is left with nothing worth keeping"
            put_back += journal.exists() and not (journal.parent / SEGMENT).exists()
        else:
            committed += 1
            assert verify_files(left.path) == []
            if not journal.exists():  # all was done and tidied up: the same command would now add it again
                assert not journal.parent.exists() or not any(journal.parent.iterdir()), "the journal goes last"
                continue
        resumed += journal.exists()
        again = scenario.second_build(path)
        assert again.manifest.segments == whole.manifest.segments
        assert index_of(again) == index_of(whole)
        assert verify_files(again.path) == []
        assert not (path / "staging").exists()
    assert resumed > 30
    assert committed > 0
    if mode == "kill":
        assert put_back > 0


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_view_is_there_whole_or_not_at_all(scenario: ModuleType, tmp_path: Path, mode: str) -> None:
    before = scenario.build(tmp_path / "before", "first", scenario.FIRST, index=True)
    scenario.build(tmp_path / "whole", "first", scenario.FIRST, index=True)
    whole = scenario.commit_view(tmp_path / "whole").view("pruned")
    assert len(whole.entries) < len(before.entries)
    committed = 0
    codes = stop_at_every_moment(scenario, mode, tmp_path, "commit_view", moments=10)
    for number in range(len(codes) - 1):
        left = Store.open(tmp_path / f"before.{number}")
        assert left.fingerprint == before.fingerprint
        assert verify_files(left.path) == []
        if left.manifest != before.manifest:
            committed += 1
            assert left.view("pruned").fingerprint == whole.fingerprint
        again = scenario.commit_view(left.path).view("pruned")
        assert again.fingerprint == whole.fingerprint
        assert again.covered_segments() == {"000001"}
        del left
        scenario.StoreWriter(again.path, scenario.MODEL).__enter__().__exit__(None, None, None)
        for part in ("index", "views"):
            present = {f"{part}/{path.name}" for path in (again.path / part).iterdir()}
            assert present == {name for name in again.manifest.named() if name.startswith(part)}, "the rest is swept"
        assert verify_files(again.path) == []
    assert committed > 0


def test_a_resumed_build_does_not_repeat_finished_blocks(
    scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the renaming of the segment and the manifest: all blocks are still there."""
    from knnmt.datastore import writer as module

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_manifest", kill)
        patch.setattr(module.StoreWriter, "_leave", lambda self: self._lock.release())  # a kill tidies nothing
        with pytest.raises(Killed):
            scenario.second_build(tmp_path / "store")
    assert (tmp_path / "store/segments/000001/keys.npy").exists()
    with module.StoreWriter(tmp_path / "store", scenario.MODEL) as writer:
        staged = writer.stage("second")
        assert staged.blocks == 2
        assert len(writer.plan(staged).segments[0]) == staged.rows


def test_what_a_replaced_file_speaks_of_is_on_disk_before(
    scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after a replacement must not lose what the journal or the manifest counts on."""
    synced: dict[int, int] = {}  # inode → time of last change when it was synced
    replaced: list[str] = []
    real = os.replace

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_mtime_ns

    def replace(new: Path, path: Path) -> None:
        store = tmp_path / "store"
        entries = [new, *store.rglob("*")] if path.name == "manifest.json" else [new, *path.parent.rglob("*")]
        for entry in entries:
            status = entry.stat()
            if entry not in {path, path.parent, store / "lock"}:
                assert synced.get(status.st_ino) == status.st_mtime_ns, f"{entry} was not synced"
        real(new, path)
        replaced.append(path.name)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    scenario.second_build(tmp_path / "store")
    assert replaced == ["journal.json"] * 3 + ["manifest.json"]
    assert synced[(tmp_path / "store").stat().st_ino] > 0
