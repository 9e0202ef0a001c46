"""JSON lines: {"source", "target", "origin"?}, or {"translation": {language: text, …}} as on the Hugging Face hub."""

import json
from collections.abc import Iterator
from typing import Any

from knnmt.corpus.characters import has_text
from knnmt.corpus.languages import nearest_language
from knnmt.corpus.lines import read_lines
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError


def read_jsonl(part: Part) -> Iterator[Pair]:
    (path,) = part.paths
    for number, line in enumerate(read_lines(path), start=1):
        if not has_text(line):
            yield Pair("", "", part.origin, number)
            continue
        try:
            source, target, origin = _fields(_parse(line), part.languages)
        except _LineError as error:
            raise CorpusError(f"Line {number} of {path} {error}.") from error
        yield Pair(source, target, origin or part.origin, number)


class _LineError(Exception):
    """What is wrong with a line; the reader adds its number and file."""


def _parse(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise _LineError(
            f"is not valid JSON ({error.msg} at column {error.colno}): write one object per line"
        ) from error
    except (ValueError, RecursionError) as error:  # a number with too many digits, or brackets nested too deeply
        raise _LineError("is JSON that cannot be parsed: write one object of strings per line") from error
    if not isinstance(record, dict):
        raise _LineError('is no JSON object: write {"source": …, "target": …}')
    return record


def _fields(record: dict[str, Any], languages: tuple[str, str] | None) -> tuple[str, str, str]:
    """Source, target and origin; the origin is empty if the record has none."""
    if "source" in record and "target" in record:
        source, target = record["source"], record["target"]
    elif isinstance(record.get("translation"), dict):
        source, target = _by_language(record["translation"], languages)
    else:
        raise _LineError('has no sentence pair: write {"source": …, "target": …} or {"translation": {…}}')
    origin = record.get("origin") or ""
    for text in (source, target, origin):
        if not isinstance(text, str):
            raise _LineError("holds something other than text: source, target and origin must be strings")
        if "\0" in text:
            raise _LineError("holds NUL, which is no text: take out the \\u0000 escape")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _LineError("holds half of a surrogate pair, which is no text: fix the \\ud… escape") from error
    return source, target, origin


def _by_language(translation: dict[str, Any], languages: tuple[str, str] | None) -> tuple[Any, Any]:
    names = tuple(translation)
    have = ", ".join(names) or "none"
    if languages is None:
        raise _LineError(f"names languages ({have}): say which is source and which is target")
    found = []
    for language in languages:
        name = nearest_language(language, names)
        if name is None:
            raise _LineError(f"has no text for the language {language} (it has {have}): give languages it has")
        found.append(name)
    source, target = found
    if source == target:
        raise _LineError(
            f"gives the same text for both {languages[0]} and {languages[1]} (it has {have}): give languages it has"
        )
    return translation[source], translation[target]
