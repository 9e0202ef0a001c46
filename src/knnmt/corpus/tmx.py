"""TMX 1.4, what every translation memory exports: units with a text for each language. Read as a stream."""

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

from lxml import etree

from knnmt.corpus.languages import nearest_language
from knnmt.corpus.lines import open_file
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.white_space import in_one_line
from knnmt.errors import CorpusError

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = {"bpt", "ept", "it", "ph", "ut"}  # hold a format's own codes, and no text of the sentence


def read_tmx(part: Part) -> Iterator[Pair]:
    """A pair for each unit, numbered; of several variants (de-AT, de-DE) the one nearest to the model's language."""
    (path,) = part.paths
    if part.languages is None:
        raise CorpusError(
            f"{path} names its languages, and the model does not say which it translates: "
            "say it with --source-lang and --target-lang."
        )
    seen: set[str] = set()
    complete = False
    try:
        with open_file(path) as file:
            for number, texts in enumerate(_units(file), start=1):
                source, target = (_text(texts, language) for language in part.languages)
                complete = complete or bool(source and target)
                seen.update(texts)
                yield Pair(source, target, part.origin, number, "" if source and target else "untranslated")
    except etree.XMLSyntaxError as error:
        raise CorpusError(f"{path} is not well-formed XML ({error.msg}): export it again as TMX.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path} is cut short or no gzip file: copy it again.") from error
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror}): check the file and its rights.") from error
    if not complete:
        have = ", ".join(sorted(seen)) or "none"
        raise CorpusError(
            f"{path} has no unit in both {part.languages[0]} and {part.languages[1]} (its languages: {have}): "
            "give a memory of the model's languages."
        )


def _units(file: Any) -> Iterator[dict[str, str]]:
    """The texts of each unit by language; what was read is let go of, so a memory of any size fits."""
    # entities are not expanded and nothing is fetched: a memory may come from anyone
    for _, unit in etree.iterparse(file, tag="{*}tu", resolve_entities=False, no_network=True, huge_tree=True):
        texts: dict[str, str] = {}
        for variant in unit.iterchildren("{*}tuv"):
            language = variant.get(_XML_LANG) or variant.get("lang") or ""  # the latter before TMX 1.4
            segment = variant.find("{*}seg")
            if segment is not None:
                texts.setdefault(language, in_one_line("".join(_words(segment))))
        yield texts
        unit.clear()
        while unit.getprevious() is not None:
            del unit.getparent()[0]


def _text(texts: dict[str, str], language: str) -> str:
    nearest = nearest_language(language, tuple(texts))
    return texts[nearest] if nearest is not None else ""


def _words(element: Any) -> Iterator[str]:
    """Text without a format's codes; what is highlighted (hi) is text."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _CODES:
            yield from _words(child)
        yield child.tail or ""
