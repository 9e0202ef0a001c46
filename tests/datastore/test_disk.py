"""What the operating system refuses: one sentence, and the store as it was."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from knnmt.datastore import Store, StoreWriter
from knnmt.errors import StoreError


def test_a_limit_on_file_size_met_while_writing(scenario: ModuleType, tmp_path: Path) -> None:
    """Real writes that fail half-way, in the arrays as in the Arrow file."""
    program = (
        "import resource, runpy, sys, pathlib\n"
        "scenario = runpy.run_path(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "try:\n"
        "    scenario['second_build'](pathlib.Path(sys.argv[2]))\n"
        "except scenario['StoreError'] as error:\n"
        "    print(error)\n"
    )
    store = tmp_path / "store"
    before = scenario.build(store, "first", scenario.FIRST)
    for limit in (100, 600, 1200):
        command = [sys.executable, "-c", program, str(scenario.__file__), str(store), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert os.strerror(errno.EFBIG) in done.stdout
        assert "make room" in done.stdout
        assert done.stdout.count("\n") == 1
        assert Store.open(store).manifest == before.manifest
    scenario.build(tmp_path / "whole", "first", scenario.FIRST)
    whole = scenario.second_build(tmp_path / "whole")
    assert scenario.second_build(store).manifest.segments == whole.manifest.segments


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_directory(
    scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Simulated: root, who runs tests in a container, may write anywhere."""
    real_open = os.open

    def refuse(path: object, flags: int, *rest: object, **names: object) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(str(tmp_path)):
            raise OSError(code, os.strerror(code), str(path))
        return real_open(path, flags, *rest, **names)  # type: ignore[arg-type]

    scenario.build(tmp_path / "store", "first", scenario.FIRST)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=rf"{os.strerror(code)}.*writable or choose another directory"):
        scenario.second_build(tmp_path / "store")
    with pytest.raises(StoreError, match="writable or choose another directory"):
        scenario.second_build(tmp_path / "new" / "store")
    assert not (tmp_path / "new").exists()


def test_a_directory_that_cannot_be_made(scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, mode: int = 0o777) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StoreError, match="choose another directory"), StoreWriter(tmp_path / "a", scenario.MODEL):
        pass


def test_a_file_where_the_store_should_be(scenario: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(StoreError, match="is a file"), StoreWriter(tmp_path / "file", scenario.MODEL):
        pass
    with pytest.raises(StoreError), StoreWriter(tmp_path / "file" / "store", scenario.MODEL):
        pass
    with pytest.raises(StoreError, match="no store"):
        Store.open(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "text"
