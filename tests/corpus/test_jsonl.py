import json
from pathlib import Path

import pytest

from knnmt.corpus.jsonl import read_jsonl
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError


def read(directory: Path, text: str, languages: tuple[str, str] | None = None) -> list[Pair]:
    path = directory / "memory.jsonl"
    path.write_text(text, encoding="utf-8")
    return list(read_jsonl(Part((path,), "file", languages)))


def test_source_and_target(tmp_path: Path) -> None:
    records = [
        {"source": "Haus", "target": "house", "id": 7},
        {"target": "a\nb", "source": "\U0001f600", "origin": "chat"},
        {"source": "Tür", "target": "door", "origin": None},
    ]
    text = "\n\n".join(json.dumps(record) for record in records)  # ASCII: the smile is a pair of escapes
    assert read(tmp_path, text) == [
        Pair("Haus", "house", "file", 1),
        Pair("", "", "file", 2),
        Pair("\U0001f600", "a\nb", "chat", 3),
        Pair("", "", "file", 4),
        Pair("Tür", "door", "file", 5),
    ]


@pytest.mark.parametrize("languages", [("de", "en"), ("deu_Latn", "eng_Latn"), ("de_DE", "en_XX")])
def test_translations_by_language(tmp_path: Path, languages: tuple[str, str]) -> None:
    text = '{"translation": {"en": "house", "de": "Haus", "fr": "maison"}, "origin": "web"}\n'
    assert read(tmp_path, text, languages) == [Pair("Haus", "house", "web", 1)]
    source, target = languages
    assert read(tmp_path, text, (target, source)) == [Pair("house", "Haus", "web", 1)]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"source": "a", "target": }', r"is not valid JSON \(Expecting value at column 27\)"),
        ("[" * 100_000, "is JSON that cannot be parsed"),
        ('{"source": "a", "target": ' + "9" * 5000 + "}", "is JSON that cannot be parsed"),
        ('["a", "b"]', "is no JSON object"),
        ('{"source": "a"}', "has no sentence pair"),
        ('{"translation": ["a", "b"]}', "has no sentence pair"),
        ('{"source": "a", "target": 3}', "holds something other than text"),
        ('{"source": "a", "target": "b", "origin": ["c"]}', "holds something other than text"),
        ('{"source": "a", "target": "b\\ud83d"}', "holds half of a surrogate pair"),
        ('{"translation": {"de": "a", "fr": "b"}}', r"has no text for the language en \(it has de, fr\)"),
        ('{"translation": {"de": "a", "en": null}}', "holds something other than text"),
    ],
)
def test_a_bad_line_is_told_by_its_number(tmp_path: Path, line: str, sentence: str) -> None:
    good = '{"source": "a", "target": "b"}\n'
    with pytest.raises(CorpusError, match=rf"Line 3 of .*memory\.jsonl {sentence}") as caught:
        read(tmp_path, f"{good}\n{line}\n", ("de", "en"))
    assert len(str(caught.value)) < 500


def test_translations_need_languages(tmp_path: Path) -> None:
    line = '{"translation": {"de": "a", "en": "b"}}'
    with pytest.raises(CorpusError, match=r"names languages \(de, en\): say which"):
        read(tmp_path, line)
    with pytest.raises(CorpusError, match="the same text for both en_GB and en_US"):
        read(tmp_path, line, ("en_GB", "en_US"))
