"""Message catalogues of gettext, .po and .mo: the texts of a program, each with its translation."""

import gettext
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import PurePath
from sys import getsizeof
from typing import Any, NamedTuple

import polib

from knnmt.corpus.characters import LINE_ENDS, has_text, in_one_line
from knnmt.corpus.languages import bare, is_language, language_of, required_languages
from knnmt.corpus.lines import open_file
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError

_MESSAGES_IN = "en"  # language of msgid, unless the header names another
_LARGEST = 1 << 27  # bytes; an archive may unpack to any size
_NO_LINE_ENDS = dict.fromkeys(map(ord, set(LINE_ENDS) - {"\n"}), " ")  # polib would split a message at these
_CHARSET = re.compile(rb"Content-Type:[^\n]*?charset=([\w.:-]+)", re.IGNORECASE)
_CLOSED = re.compile(r'(msg\w+(\[\d+\])?\s*)?"[^"\\]*+(\\.[^"\\]*+)*+"')  # msgid "a \"string\""
_BYTE_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}  # by the magic number of .mo


class NoCatalogueError(CorpusError):
    """A file with the extension of a catalogue that is something else: a Modelica model is a .mo too."""


class Message(NamedTuple):
    """A message or one of its plural forms, with its translation, each in one line.

    Attributes:
        line: the line of its entry; in a compiled catalogue, which has no lines, the number of the entry
        unfit: why the translation must not be used, in one word; empty for a good one
    """

    line: int
    text: str
    translation: str
    unfit: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A parsed catalogue.

    Attributes:
        path: of the file, for error messages
        written_in: the language of the messages
        translated_into: the language of their translations; empty if unknown
        messages: in the order of the file
    """

    path: Traversable
    written_in: str
    translated_into: str
    messages: tuple[Message, ...]

    @property
    def fit(self) -> int:
        """How many translations can be used."""
        return sum(not message.unfit for message in self.messages)

    @property
    def bytes(self) -> int:
        """How much memory it uses."""
        return sum(sum(map(getsizeof, (each, each.text, each.translation))) for each in self.messages)

    def pairs(self, part: Part) -> Iterator[Pair]:
        """Each message in the direction of `part.languages`; each plural form is a separate pair."""
        reverse = self._is_reverse(required_languages(part.languages, self.path))
        for line, text, translation, unfit in self.messages:
            source, target = (translation, text) if reverse else (text, translation)
            yield Pair(source, target, part.origin, line, unfit)

    def _is_reverse(self, languages: tuple[str, str]) -> bool:
        """Whether the translations are in the source language of the model."""
        if not self.translated_into:
            raise CorpusError(f"{self.path} does not say its language: add a Language line to its header.")
        own = language_of(self.written_in), language_of(self.translated_into)
        wanted = language_of(languages[0]), language_of(languages[1])
        if wanted not in (own, own[::-1]):
            raise CorpusError(
                f"{self.path} translates {self.written_in} into {self.translated_into}, "
                f"but the model {languages[0]} into {languages[1]}: give a catalogue of its languages."
            )
        return wanted != own


def read_catalogue(part: Part) -> Iterator[Pair]:
    (path,) = part.paths
    return parse_catalogue(path).pairs(part)


def parse_catalogue(path: Traversable) -> Catalogue:
    """Read a .po or .mo; raises NoCatalogueError for something else, CorpusError for one that is damaged."""
    parsed = _parse(path)
    singular = _singular_form(parsed.metadata.get("Plural-Forms", ""))
    messages = (
        Message(
            max(getattr(entry, "linenum", number), 1),
            in_one_line(text),
            in_one_line(translation),
            _unfit(entry, translation),
        )
        for number, entry in enumerate(parsed, start=1)
        for text, translation in _texts(entry, singular)
    )
    return Catalogue(path, *_languages(path, parsed.metadata), tuple(messages))


def is_compiled(name: str) -> bool:
    """Whether it is a .mo, by the name of the file."""
    return name.lower().removesuffix(".gz").endswith(".mo")


def language_in_path(path: Traversable) -> str:
    """`de` for de/LC_MESSAGES/shop.po, where gettext looks for its catalogues; empty elsewhere."""
    parts = PurePath(str(path)).parts
    language = bare(parts[parts.index("LC_MESSAGES") - 1]) if "LC_MESSAGES" in parts[1:-1] else ""
    return language if is_language(language_of(language)) else ""  # locale/LC_MESSAGES/de.po


def language_in_name(path: Traversable) -> str:
    """`de` for po/de.po; empty if the name is not a language."""
    name = bare(path.name)
    return name if re.match(r"[a-z]{2}(?![a-z])", name) and is_language(name) else ""


def _languages(path: Traversable, metadata: Mapping[str, str]) -> tuple[str, str]:
    translations = language_in_path(path) or bare(metadata.get("Language", "")) or language_in_name(path)
    return bare(metadata.get("X-Source-Language", "")) or _MESSAGES_IN, translations


def _parse(path: Traversable) -> Any:
    with open_file(path) as file:
        content = file.read(_LARGEST + 1)
    compiled = is_compiled(path.name)
    try:
        if len(content) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 20} MiB")
        # What is appended keeps polib from taking the content for the name of a file.
        return polib.mofile(_checked(content) + b"\0") if compiled else polib.pofile(_text(content) + "\n\n")
    except (OSError, LookupError, ValueError, TypeError, struct.error) as error:
        reason = " ".join(str(error).split())
        is_catalogue = content[:4] in _BYTE_ORDERS if compiled else b"msgid" in content
        kind = CorpusError if is_catalogue else NoCatalogueError
        raise kind(f"{path} is no catalogue that can be read ({reason}): check it with msgfmt.") from error


def _checked(content: bytes) -> bytes:
    """Check that the strings of a .mo are inside the file and do not overlap: polib checks neither."""
    if order := _BYTE_ORDERS.get(content[:4]):
        count, *tables = struct.unpack_from(f"{order}3I", content, 8)
        total = 0
        for table in tables:
            for length, offset in struct.iter_unpack(f"{order}2I", content[table : table + 8 * count]):
                total += length
                if max(offset + length, total) > len(content):
                    raise ValueError("it is cut short, or its tables are damaged")
    return content


def _text(content: bytes) -> str:
    """Decode a .po and check that all strings are closed: polib removes their first and last character unchecked."""
    charset = _CHARSET.search(content)
    text = content.decode(charset[1].decode() if charset and charset[1] != b"CHARSET" else "utf-8")
    text.encode()  # no half of a surrogate pair
    if "\0" in text:
        raise ValueError("it holds NUL, which is no text")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").translate(_NO_LINE_ENDS)
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if line.startswith(("msg", '"')) and not _CLOSED.fullmatch(line):
            raise ValueError(f"line {number} has no string between double quotes")
    return text


def _texts(entry: Any, singular: int | None) -> Iterator[tuple[str, str]]:
    """Each form of an entry: the singular form translates the message, the others its plural."""
    if not entry.msgid_plural or not entry.msgstr_plural:
        yield entry.msgid, entry.msgstr
    for form, translation in sorted(entry.msgstr_plural.items()):
        yield (entry.msgid if form == singular else entry.msgid_plural), translation


def _singular_form(header: str) -> int | None:
    """The form for exactly one thing, from a header such as `nplurals=2; plural=n != 1;`; None if there is none."""
    rule = re.search(r"plural\s*=\s*([^;]+)\s*;?\s*$", header)
    try:
        form = gettext.c2py(rule[1] if rule else "n != 1")
        return int(form(1)) if form(1) != form(2) else None
    except (ValueError, ZeroDivisionError, RecursionError):
        return 0


def _unfit(entry: Any, translation: str) -> str:
    if entry.obsolete:
        return "obsolete"
    if "fuzzy" in entry.flags:
        return "fuzzy"
    return "" if has_text(translation) else "untranslated"
