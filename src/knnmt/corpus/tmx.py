"""TMX 1.4, what every translation memory exports: units with a text for each language. Read as a stream."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from knnmt.corpus.languages import nearest_language, required_languages
from knnmt.corpus.lines import open_file
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.white_space import in_one_line
from knnmt.errors import CorpusError

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = {"bpt", "ept", "it", "ph", "ut"}  # hold a format's own codes, and no text of the sentence


def read_tmx(part: Part) -> Iterator[Pair]:
    """A pair for each unit, numbered; of several variants (de-AT, de-DE) the one nearest to the model's language."""
    (path,) = part.paths
    languages = required_languages(part.languages, path)
    seen: set[str] = set()
    complete = False
    try:
        with open_file(path) as file:
            for number, texts in enumerate(_units(file), start=1):
                seen.update(texts)
                source, target = _pair(texts, languages)
                complete = complete or bool(source and target)
                yield Pair(source, target, part.origin, number, "" if source and target else "untranslated")
    except etree.XMLSyntaxError as error:
        raise CorpusError(
            f"{path} is not well-formed XML ({in_one_line(str(error.msg))}): export it again as TMX."
        ) from error
    if not complete:
        have = ", ".join(sorted(seen)) or "none"
        raise CorpusError(
            f"{path} has no unit in both {languages[0]} and {languages[1]} (its languages: {have}): "
            "give a memory of the model's languages."
        )


def _units(file: Any) -> Iterator[dict[str, str]]:
    """The texts of each unit by language; what was read is let go of, so a memory of any size fits."""
    # a memory may come from anyone: nothing outside of it is read, and libxml2 bounds what its entities expand to
    for _, unit in etree.iterparse(file, tag="{*}tu", resolve_entities="internal", no_network=True):
        texts: dict[str, str] = {}
        for variant in unit.iterchildren("{*}tuv"):
            language = variant.get(_XML_LANG) or variant.get("lang") or ""  # the latter before TMX 1.4
            segment = variant.find("{*}seg")
            text = "" if segment is None else in_one_line("".join(_words(segment)))
            if text and language:
                texts.setdefault(language, text)
        yield texts
        unit.clear()
        while unit.getprevious() is not None:
            del unit.getparent()[0]


def _pair(texts: dict[str, str], languages: tuple[str, str]) -> tuple[str, str]:
    """Empty where there is no text, or one for both: en_GB and en_US may be a single en."""
    source, target = (nearest_language(language, tuple(texts)) for language in languages)
    target = None if target == source else target
    return texts.get(source or "", ""), texts.get(target or "", "")


def _words(element: Any) -> Iterator[str]:
    """Text without a format's codes; what is highlighted (hi) is text."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _CODES:
            yield from _words(child)
        yield child.tail or ""
