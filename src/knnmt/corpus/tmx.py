"""TMX 1.4, the exchange format of translation memories: units with one text per language. Read as a stream."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

from lxml import etree

from knnmt.corpus.characters import has_text, in_one_line
from knnmt.corpus.html_entities import HtmlEntities, read_head
from knnmt.corpus.languages import nearest_language, required_languages
from knnmt.corpus.lines import open_file
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_UNDEFINED = (etree.ErrorTypes.ERR_UNDECLARED_ENTITY, etree.ErrorTypes.WAR_UNDECLARED_ENTITY)
_TOO_LONG = re.compile("text node|CData section", re.IGNORECASE)  # messages of old and new versions of libxml2
_CHUNK = 1 << 15
_CODES = {"bpt", "ept", "it", "ph", "ut"}  # contain codes of a format, not text of the sentence


class _UndefinedError(Exception):
    """An entity without a definition: its name and line."""


def read_tmx(part: Part) -> Iterator[Pair]:
    """One pair per unit, numbered; of several variants (de-AT, de-DE) the one nearest to the model's language."""
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
    except _UndefinedError as error:
        raise CorpusError(
            f"{path} uses a name that nothing defines ({error}): write the text it stands for."
        ) from error
    except etree.XMLSyntaxError as error:
        reason = in_one_line(str(error.msg))
        if _TOO_LONG.search(reason):
            line, _ = error.position
            raise CorpusError(
                f"{path} has a segment of more than 10 MB at line {line}: split it into sentences, or delete it."
            ) from error
        raise CorpusError(f"{path} is not well-formed XML ({reason}): export it again as TMX.") from error
    if not complete:
        have = ", ".join(sorted(seen)) or "none"
        raise CorpusError(
            f"{path} has no unit in both {languages[0]} and {languages[1]} (its languages: {have}): "
            "give a memory of the model's languages."
        )


def _units(file: BinaryIO) -> Iterator[dict[str, str]]:
    """The texts of each unit by language; each unit is freed after it is read, so files may be of any size."""
    # do not trust the file: nothing outside it is read, and libxml2 limits the expansion of its entities
    parser = etree.XMLPullParser(("end",), tag="{*}tu", resolve_entities="internal", no_network=True, load_dtd=True)
    parser.resolvers.add(HtmlEntities())
    error: Exception | None = None
    for chunk in chain((read_head(file),), iter(partial(file.read, _CHUNK), b"")):
        try:
            parser.feed(chunk)
        except etree.XMLSyntaxError as caught:
            error = caught  # raised below, after the units that precede it
        _check_entities(parser)
        for _, unit in parser.read_events():
            yield _texts(unit)
            unit.clear()
            while unit.getprevious() is not None:
                del unit.getparent()[0]
        if error:
            raise error
    parser.close()


def _check_entities(parser: Any) -> None:
    """Refuse undefined entities: libxml2 only logs them and omits them from the text."""
    for entry in parser.feed_error_log:
        if entry.type in _UNDEFINED:
            raise _UndefinedError(f"{entry.message} at line {entry.line}")


def _texts(unit: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    for variant in unit.iterchildren("{*}tuv"):
        language = variant.get(_XML_LANG) or variant.get("lang") or ""  # `lang` before TMX 1.4
        segment = variant.find("{*}seg")
        text = "" if segment is None else in_one_line("".join(_words(segment)))
        if has_text(text) and language:
            texts.setdefault(language, text)
    return texts


def _pair(texts: dict[str, str], languages: tuple[str, str]) -> tuple[str, str]:
    """Source and target. A missing one is empty; so is the target if one text fits both (en for en_GB and en_US)."""
    source, target = (nearest_language(language, tuple(texts)) for language in languages)
    target = None if target == source else target
    return texts.get(source or "", ""), texts.get(target or "", "")


def _words(element: Any) -> Iterator[str]:
    """The text without formatting codes; highlighted text (hi) is included."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _CODES:
            yield from _words(child)
        yield child.tail or ""
