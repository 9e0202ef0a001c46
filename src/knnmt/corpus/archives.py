"""Message catalogues between the languages of a model, in a directory, a wheel or a zip archive."""

import codecs
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from knnmt.corpus.catalogue import (
    Catalogue,
    NoCatalogueError,
    is_compiled,
    language_in_name,
    language_in_path,
    parse_catalogue,
)
from knnmt.corpus.languages import bare, language_of, nearest_language, required_languages, script_of
from knnmt.corpus.pair import Pair, Part
from knnmt.errors import CorpusError

KEPT_BYTES = 1 << 26  # of parsed catalogues per corpus; all others are parsed again for each pass

_ARCHIVES = (".whl", ".zip")
_EXTENSION = re.compile(r"\.(po|mo)(\.gz)?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Member:
    """A catalogue of a directory or archive.

    Attributes:
        name: its path within the directory or archive
        language: of its translations, with the variant (de_AT)
        fit: the number of usable translations
        kept: the parsed catalogue, or None if `KEPT_BYTES` is used up
    """

    name: str
    file: Traversable
    language: str
    fit: int
    kept: Catalogue | None

    def read(self, part: Part) -> Iterator[Pair]:
        """The pairs of the catalogue, like a `Reader`."""
        return (self.kept or parse_catalogue(self.file)).pairs(part)


def holds_catalogues(path: Path) -> bool:
    return os.path.isdir(path) or path.suffix.lower() in _ARCHIVES


class Catalogues:
    """The catalogues in the directories and archives of a corpus: chosen once, and kept in memory if they fit.

    The choice depends on the content of all catalogues, so all of them are parsed once. Keeping the chosen ones saves
    parsing them again.
    """

    def __init__(self, languages: tuple[str, str] | None) -> None:
        self.languages = languages
        self._chosen: dict[Path, list[Member]] = {}

    def inside(self, path: Path) -> list[Member]:
        """The catalogues of `path` to read, in order.

        Of several variants of a catalogue, this is the one nearest to the model's language. A .po is preferred to a
        .mo, because it marks fuzzy translations.
        """
        if path not in self._chosen:
            self._chosen[path] = self._choose(path)
        return self._chosen[path]

    def _choose(self, path: Path) -> list[Member]:
        found = sorted(_catalogues(path), key=lambda each: (is_compiled(each[0]), each[0]))
        if not found:
            unpack = "" if path.is_dir() else "unpack it and "
            raise CorpusError(f"{path} holds no message catalogue (.po, .mo): {unpack}name the corpus files in it.")
        languages = required_languages(self.languages, path)
        wanted = {language_of(language): language for language in languages}
        variants: dict[str, dict[str, Member]] = defaultdict(dict)  # by catalogue, then by path without extension
        others: set[str] = set()
        room = self._room()
        for name, file in found:
            translations = language_in_path(file)
            if not translations or language_of(translations) in wanted:  # others need not be opened
                catalogue = _parsed(file, wanted)
                translations, stem = catalogue.translated_into, _stem(name)
                if {language_of(catalogue.written_in), language_of(translations)} == set(wanted):
                    same = variants[_catalogue_name(stem, translations)]
                    if stem not in same:
                        size = catalogue.bytes
                        kept, room = (catalogue, room - size) if size <= room else (None, room)
                        same[stem] = Member(name, file, translations, catalogue.fit, kept)
                    continue
            others.add(translations or "unknown")
        if not variants:
            have = ", ".join(sorted(others))
            raise CorpusError(
                f"{path} has no catalogue between {languages[0]} and {languages[1]} (it has {have}): "
                "give one of the model's languages."
            )
        chosen = [_chosen(list(files.values()), wanted) for files in variants.values()]
        return sorted(chosen, key=lambda member: member.name)

    def _room(self) -> int:
        """How many more bytes may be kept."""
        kept = (member.kept for members in self._chosen.values() for member in members)
        return KEPT_BYTES - sum(catalogue.bytes for catalogue in kept if catalogue)


def _catalogues(path: Path) -> Iterator[tuple[str, Traversable]]:
    try:
        for name, file in _files(path) if path.is_dir() else _members(path):
            parts = PurePosixPath(name).parts
            if _EXTENSION.search(name) and "__MACOSX" not in parts and not any(part.startswith(".") for part in parts):
                yield name, file
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{path} cannot be read ({error}): check it, or copy it again.") from error


def _files(path: Path) -> Iterator[tuple[str, Traversable]]:
    def fail(error: OSError) -> None:
        raise error  # `walk` would ignore it

    for directory, inner, names in os.walk(path, onerror=fail):
        inner[:] = [name for name in inner if not name.startswith(".")]  # .git, .venv
        files = (Path(directory, name) for name in names)
        yield from ((file.relative_to(path).as_posix(), file) for file in files if file.is_file())


def _members(path: Path) -> Iterator[tuple[str, Traversable]]:
    archive = zipfile.ZipFile(path)
    return ((name, zipfile.Path(archive, name)) for name in archive.namelist())


def _parsed(file: Traversable, wanted: Collection[str]) -> Catalogue:
    """Parse a catalogue. A file that only has the extension counts as empty, except in de/LC_MESSAGES.

    A damaged catalogue raises CorpusError, unless its name says that its language is not wanted.
    """
    try:
        return parse_catalogue(file)
    except NoCatalogueError:
        if language_in_path(file):
            raise
        return Catalogue(file, "", "", ())
    except CorpusError:
        language = language_in_path(file) or language_in_name(file)
        if not language or language_of(language) in wanted:
            raise
        return Catalogue(file, "", language, ())


def _stem(name: str) -> str:
    return _EXTENSION.sub("", name)


def _catalogue_name(stem: str, language: str) -> str:
    """The path with `*` for the language and its codeset: the same for all variants of a catalogue."""
    paths = []
    for part in stem.split("/"):
        pieces: list[str] = []
        for piece in part.split("."):
            if language_of(bare(piece)) == language_of(language):
                pieces.append("*")
            elif pieces[-1:] != ["*"] or not _is_codeset(bare(piece)):
                pieces.append(piece)
        paths.append(".".join(pieces))
    return "/".join(paths)


def _is_codeset(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def _chosen(variants: list[Member], wanted: dict[str, str]) -> Member:
    """The nearest variant; but sr before sr@latin, and at least half as full as any other in its script."""
    language = wanted[language_of(variants[0].language)]
    variants = [variant for variant in variants if "@" not in variant.name] or variants
    script = script_of(_nearest(variants, language).language)
    variants = [variant for variant in variants if script_of(variant.language) == script]
    fullest = max(variant.fit for variant in variants)
    return _nearest([variant for variant in variants if 2 * variant.fit >= fullest], language)


def _nearest(variants: list[Member], wanted: str) -> Member:
    language = nearest_language(wanted, tuple(variant.language for variant in variants))
    return next(variant for variant in variants if variant.language == language)
