from pathlib import Path

import pytest

from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.tsv import read_tsv
from knnmt.errors import CorpusError


def read(directory: Path, text: str) -> list[Pair]:
    path = directory / "memory.tsv"
    path.write_text(text, encoding="utf-8")
    return list(read_tsv(Part((path,), "file", None)))


def test_columns(tmp_path: Path) -> None:
    text = 'Haus\thouse\n"Ja"\t"yes\tmanual p. 3\nTür\tdoor\t \n\n\tonly target\n'
    assert read(tmp_path, text) == [
        Pair("Haus", "house", "file", 1),
        Pair('"Ja"', '"yes', "manual p. 3", 2),
        Pair("Tür", "door", "file", 3),
        Pair("", "", "file", 4),
        Pair("", "only target", "file", 5),
    ]


@pytest.mark.parametrize(("line", "have"), [("Haus house", "1 column:"), ("1\tHaus\t2\thouse", "4 columns:")])
def test_a_wrong_number_of_columns(tmp_path: Path, line: str, have: str) -> None:
    with pytest.raises(CorpusError, match=rf"Line 2 of .*memory\.tsv has {have}"):
        read(tmp_path, f"a\tb\n{line}\n")
