"""Message catalogues of gettext, .po and .mo: what a program says, and the same in another language."""

import gettext
import gzip
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Any

import polib

from knnmt.corpus.languages import is_language, language_of
from knnmt.corpus.pair import Pair, Part
from knnmt.corpus.white_space import in_one_line
from knnmt.errors import CorpusError

_MESSAGES_IN = "en"  # what msgid is written in, unless the header says otherwise
_CHARSET = re.compile(rb"Content-Type:[^\n]*?charset=([\w.:-]+)", re.IGNORECASE)


def read_catalogue(part: Part) -> Iterator[Pair]:
    """Entries turned to the direction of `part.languages`; plural forms are pairs of their own."""
    (path,) = part.paths
    catalogue = _parse(path)
    turn = _direction(path, catalogue.metadata, part.languages)
    singular_form = _singular_form(catalogue.metadata.get("Plural-Forms", ""))
    for number, entry in enumerate(catalogue, start=1):
        for message, translation in _texts(entry, singular_form):
            source, target = turn(in_one_line(message), in_one_line(translation))
            yield Pair(source, target, part.origin, getattr(entry, "linenum", number), _unfit(entry, translation))


def languages_of(path: Traversable) -> tuple[str, str]:
    """What its messages are written in, and what it translates them into; the latter empty where nothing says it."""
    return _languages(path, _parse(path, header_only=True).metadata)


def language_in_path(path: Traversable) -> str:
    """`de` for de/LC_MESSAGES/shop.po, where gettext looks for its catalogues; empty elsewhere."""
    *_, language, messages, _ = ("", "", *PurePath(str(path)).parts)
    return language if messages == "LC_MESSAGES" else ""


def _languages(path: Traversable, metadata: Mapping[str, str]) -> tuple[str, str]:
    name = path.name.split(".")[0]
    translations = language_in_path(path) or metadata.get("Language", "").strip()
    if not translations and re.match(r"[a-z]{2}(?![a-z])", name) and is_language(name):
        translations = name  # po/de.po
    return metadata.get("X-Source-Language", "").strip() or _MESSAGES_IN, translations


def _parse(path: Traversable, header_only: bool = False) -> Any:
    try:
        content = path.read_bytes()
        if path.name.lower().endswith(".gz"):
            content = gzip.decompress(content)
        if path.name.lower().removesuffix(".gz").endswith(".mo"):
            return polib.mofile(content)
        charset = _CHARSET.search(content)
        text = content.decode(charset[1].decode() if charset and charset[1] != b"CHARSET" else "utf-8")
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        if header_only:
            text = text[: text.find("\n\n", text.find('msgid ""')) + 1]
        return polib.pofile(text + "\n")  # never empty, which polib would take for a file's name
    except (OSError, EOFError, zlib.error, LookupError, ValueError, TypeError, struct.error) as error:
        reason = " ".join(str(error).split())
        raise CorpusError(f"{path} is no catalogue that can be read ({reason}): check it with msgfmt.") from error


def _direction(
    path: Traversable, metadata: Mapping[str, str], languages: tuple[str, str] | None
) -> Callable[[str, str], tuple[str, str]]:
    """What puts a message and its translation in the order source, target."""
    if languages is None:
        raise CorpusError(
            f"{path} may be read in either direction, and the model does not say which languages it translates: "
            "say it with --source-lang and --target-lang."
        )
    messages, translations = _languages(path, metadata)
    if not translations:
        raise CorpusError(f"{path} does not say its language: add a Language line to its header.")
    source, target = map(language_of, languages)
    if (language_of(messages), language_of(translations)) == (source, target):
        return lambda message, translation: (message, translation)
    if (language_of(translations), language_of(messages)) == (source, target):
        return lambda message, translation: (translation, message)
    raise CorpusError(
        f"{path} translates {messages} into {translations}, but the model {languages[0]} into {languages[1]}: "
        "give a catalogue of its languages."
    )


def _texts(entry: Any, singular_form: int) -> Iterator[tuple[str, str]]:
    """Each form with what it translates: one the message, the others its plural."""
    if not entry.msgid_plural:
        yield entry.msgid, entry.msgstr
        return
    several = len(entry.msgstr_plural) > 1
    for form, translation in sorted(entry.msgstr_plural.items()):
        yield (entry.msgid if several and form == singular_form else entry.msgid_plural), translation


def _singular_form(header: str) -> int:
    """Which plural form is for one thing, by a header such as `nplurals=2; plural=n != 1;`."""
    rule = re.search(r"plural\s*=\s*([^;]+)\s*;?\s*$", header)
    try:
        return int(gettext.c2py(rule[1])(1)) if rule else 0
    except (ValueError, ZeroDivisionError, RecursionError):
        return 0


def _unfit(entry: Any, translation: str) -> str:
    if entry.obsolete:
        return "obsolete"
    if "fuzzy" in entry.flags:
        return "fuzzy"
    return "" if translation.strip() else "untranslated"
