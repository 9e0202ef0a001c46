from pathlib import Path

import pytest

from knnmt.corpus import Corpus
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.tsv import read_tsv
from knnmt.errors import CorpusError


def read(directory: Path, text: str, languages: tuple[str, str] | None = None) -> list[Pair]:
    path = directory / "memory.tsv"
    path.write_text(text, encoding="utf-8")
    return list(read_tsv(Part((path,), "file", languages)))


def texts(directory: Path, text: str) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read(directory, text) if not pair.unfit]


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


@pytest.mark.parametrize(
    ("line", "languages"),
    [
        ("source\ttarget", None),
        ("Source\tTARGET\tOrigin", None),
        ("src\ttrg\tscore", ("de", "en")),
        ("de\ten", ("de", "en")),
        ("de\ten", ("deu_Latn", "eng_Latn")),
        ("DE-de\ten_US\torigin", ("de", "en")),
        ("en-GB\ten-US", ("en_GB", "en_US")),
        ('"source"\t"target"', None),
        ("\ufeffsource\ttarget", None),
    ],
)
def test_a_header_is_left_out_and_counted(tmp_path: Path, line: str, languages: tuple[str, str] | None) -> None:
    first, second = read(tmp_path, f"{line}\nHaus\thouse\n", languages)
    assert (first.unfit, first.line) == ("header", 1)
    assert second == Pair("Haus", "house", "file", 2)
    summary = Corpus([tmp_path / "memory.tsv"], languages=languages).scan()
    assert (summary.pairs, summary.left_out) == (1, {"header": 1})


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("Quelle\tsource\n", ("de", "en")),
        ("Ziel\ttarget\n", ("de", "en")),
        ("source\tsource\n", ("fr", "en")),
        ("de\ten\n", None),
        ("de\ten\n", ("es", "fr")),
        ("Haus\thouse\nsource\ttarget\n", ("de", "en")),
        ("source of light\ttarget of light\n", None),
        ("de\thouse\n", ("de", "en")),
    ],
)
def test_what_is_no_header_is_text(tmp_path: Path, text: str, languages: tuple[str, str] | None) -> None:
    assert not any(pair.unfit for pair in read(tmp_path, text, languages))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("target\tsource", "target, source"),
        ("id\tsource\ttarget", "id, source, target"),
        ("en\tde", "en, de"),
        ("EN\tde-DE\torigin", "EN, de-DE, origin"),
    ],
)
def test_a_header_in_another_order_is_told(tmp_path: Path, line: str, names: str) -> None:
    with pytest.raises(CorpusError, match=rf"Line 1 of .*memory\.tsv names its columns {names}: put them in the order"):
        read(tmp_path, f"{line}\nHaus\thouse\n", ("de", "en"))


ORDINARY = [
    '"Hallo!"\t"Hello!"\n',
    'Haus\thouse\n"Hallo!"\t"Hello!"\n',
    '"Hallo", sagte er, "ja"\t"Hello" he said "bye"\n',
    '"Hallo" sagte er\the said "hello"\n',
    '"Hallo\tHello"\n',
    '"Use "" for nothing"\t"a" and "b"\n',
    'ein "" leer\tan empty ""\n',
    '""\t""\n',
    '5"\t5"\n',
]


@pytest.mark.parametrize("text", ORDINARY)
def test_quotes_are_text(tmp_path: Path, text: str) -> None:
    assert texts(tmp_path, text) == [tuple(line.split("\t")) for line in text.splitlines()]


SPREADSHEET = '"Er sagte ""ja"""\t"He said ""yes"""\nHaus\thouse\n"Tür, rot"\t"door, red"\t"page 3"\n'


def test_a_spreadsheets_quotes_are_not(tmp_path: Path) -> None:
    expected = [('Er sagte "ja"', 'He said "yes"'), ("Haus", "house"), ("Tür, rot", "door, red")]
    assert texts(tmp_path, SPREADSHEET) == expected
    assert read(tmp_path, SPREADSHEET)[2].origin == "page 3"
    later = "\n".join(reversed(SPREADSHEET.splitlines()))
    assert texts(tmp_path, later) == expected[::-1], "what shows it may come at the end"
    assert texts(tmp_path, '"""Hallo!"""\t"a\tb"\n') == [('"Hallo!"', "a b")]


@pytest.mark.parametrize("text", ORDINARY[2:6])
def test_one_line_that_no_spreadsheet_writes_makes_all_quotes_text(tmp_path: Path, text: str) -> None:
    assert texts(tmp_path, SPREADSHEET + text)[0] == ('"Er sagte ""ja"""', '"He said ""yes"""')


@pytest.mark.parametrize("header", ["", "source\ttarget\n"])
def test_quotes_around_every_cell_of_many_lines_are_a_spreadsheets(tmp_path: Path, header: str) -> None:
    lines = [f'"Satz {number}"\t"sentence {number}"\n' for number in range(100)]
    assert texts(tmp_path, header + "".join(lines))[0] == ("Satz 0", "sentence 0")
    assert texts(tmp_path, header + "".join(lines[:99]))[0] == ('"Satz 0"', '"sentence 0"')
    assert texts(tmp_path, header + "".join(lines) + "Haus\thouse\n")[0] == ('"Satz 0"', '"sentence 0"')
    assert texts(tmp_path, '"source"\t"target"\n' + lines[0]) == [("Satz 0", "sentence 0")]


def test_what_lies_behind_the_limit_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    path.write_bytes(b'"Haus"\t"house"\n\xff"\n' + b'"' * 10)
    assert [pair.source for pair in Corpus([path], limit=1)] == ['"Haus"']
