from pathlib import Path

import pytest

from knnmt.demo.wheels import WHEELS, Wheel, fetch
from knnmt.errors import DemoError


def test_pip_downloads_what_is_missing_and_nothing_else(
    index: tuple[Wheel, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "deep" / "cache"
    paths = fetch(index, cache)
    assert [path.name for path in paths] == [wheel.file for wheel in index]
    assert all(wheel.is_whole(path) for wheel, path in zip(index, paths, strict=True))
    assert sorted(cache.iterdir()) == sorted(paths), "nothing else is left behind"
    paths[0].write_bytes(paths[0].read_bytes()[:-1])
    fetch(index, cache)
    assert index[0].is_whole(paths[0]), "a damaged one is downloaded again"
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch(index, cache) == paths, "and now none is"


def test_without_an_index_it_says_what_it_needs(
    index: tuple[Wheel, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    cache = tmp_path / "cache"
    with pytest.raises(DemoError, match=r"tickets 1\.0 and meetings 1\.0 \(2 MB\).*No matching.*package index") as told:
        fetch(index, cache)
    assert f"put {index[0].file} and {index[1].file} into {cache}." in str(told.value)
    assert list(cache.iterdir()) == []


def test_another_file_of_the_same_name_is_refused(index: tuple[Wheel, ...], tmp_path: Path) -> None:
    forged = Wheel("tickets", "1.0", "0" * 64, 1)
    with pytest.raises(DemoError, match="could not download"):
        fetch([forged], tmp_path / "cache")


def test_a_cache_that_cannot_be_written(index: tuple[Wheel, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DemoError, match=r"cannot be used \(.+\); set KNNMT_CACHE to a directory"):
        fetch(index, tmp_path / "file" / "cache")


def test_the_demos_own_wheels_are_pinned_and_small() -> None:
    assert sum(wheel.megabytes for wheel in WHEELS) <= 80
    for wheel in WHEELS:
        assert len(bytes.fromhex(wheel.sha256)) == 32
