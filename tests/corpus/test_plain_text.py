from pathlib import Path

import pytest

from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.plain_text import read_plain_text
from knnmt.errors import CorpusError


def part(directory: Path, source: str, target: str) -> Part:
    paths = (directory / "t.de", directory / "t.en")
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text, encoding="utf-8")
    return Part(paths, "memory", None)


def test_lines_are_paired_in_order(tmp_path: Path) -> None:
    pairs = read_plain_text(part(tmp_path, "ein\n\n drei \n", "one\ntwo\nthree"))
    assert list(pairs) == [
        Pair("ein", "one", "memory", 1),
        Pair("", "two", "memory", 2),
        Pair(" drei ", "three", "memory", 3),
    ]


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3), (0, 1), (1, 0), (4, 3)])
def test_different_numbers_of_lines_are_told(tmp_path: Path, sources: int, targets: int) -> None:
    with pytest.raises(CorpusError, match=rf"t\.de has {sources} lines but .*t\.en has {targets}:"):
        list(read_plain_text(part(tmp_path, "a\n" * sources, "b\n" * targets)))
