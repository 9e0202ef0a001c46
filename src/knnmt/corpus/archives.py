"""The catalogues in a directory, a wheel or a zip archive that are between a model's languages."""

import codecs
import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from knnmt.corpus.catalogue import NoCatalogueError, Outline, language_in_name, language_in_path, outline_of
from knnmt.corpus.languages import bare, language_of, nearest_language, required_languages, script_of
from knnmt.errors import CorpusError

_ARCHIVES = (".whl", ".zip")
_EXTENSION = re.compile(r"\.(po|mo)(\.gz)?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Variant:
    """One of the files that a catalogue has for a language (de_AT, de_DE)."""

    name: str
    file: Traversable
    language: str
    fit: int


def holds_catalogues(path: Path) -> bool:
    return os.path.isdir(path) or path.suffix.lower() in _ARCHIVES


def catalogues_in(path: Path, languages: tuple[str, str] | None) -> list[tuple[str, Traversable]]:
    """Names within `path` with the files to read, in order.

    Of a catalogue's variants the one nearest to the model's language, and of .po and .mo the first, which knows what
    is fuzzy.
    """
    found = sorted(_catalogues(path), key=lambda each: (each[0].lower().removesuffix(".gz").endswith(".mo"), each[0]))
    if not found:
        unpack = "" if path.is_dir() else "unpack it and "
        raise CorpusError(f"{path} holds no message catalogue (.po, .mo): {unpack}name the corpus files in it.")
    languages = required_languages(languages, path)
    wanted = {language_of(language): language for language in languages}
    variants: dict[str, dict[str, _Variant]] = defaultdict(dict)  # by catalogue, then path without extension
    others: set[str] = set()
    for name, file in found:
        translations = language_in_path(file)
        if not translations or language_of(translations) in wanted:  # no other needs to be opened
            outline = _outline(file, wanted)
            translations, stem = outline.translations, _stem(name)
            if {language_of(outline.messages), language_of(translations)} == set(wanted):
                variant = _Variant(name, file, translations, outline.fit)
                variants[_place(stem, translations)].setdefault(stem, variant)
                continue
        others.add(translations or "unknown")
    if not variants:
        raise CorpusError(
            f"{path} has no catalogue between {languages[0]} and {languages[1]} (it has {', '.join(sorted(others))}): "
            "give one of the model's languages."
        )
    chosen = [_chosen(list(files.values()), wanted) for files in variants.values()]
    return sorted(((variant.name, variant.file) for variant in chosen), key=lambda each: each[0])


def _catalogues(path: Path) -> Iterator[tuple[str, Traversable]]:
    try:
        for name, file in _files(path) if path.is_dir() else _members(path):
            parts = PurePosixPath(name).parts
            if _EXTENSION.search(name) and "__MACOSX" not in parts and not any(part.startswith(".") for part in parts):
                yield name, file
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{path} cannot be read ({error}): check it, or copy it again.") from error


def _files(path: Path) -> Iterator[tuple[str, Traversable]]:
    def tell(error: OSError) -> None:
        raise error  # which `walk` keeps to itself

    for directory, inner, names in os.walk(path, onerror=tell):
        inner[:] = [name for name in inner if not name.startswith(".")]  # .git, .venv
        files = (Path(directory, name) for name in names)
        yield from ((file.relative_to(path).as_posix(), file) for file in files if file.is_file())


def _members(path: Path) -> Iterator[tuple[str, Traversable]]:
    archive = zipfile.ZipFile(path)
    return ((name, zipfile.Path(archive, name)) for name in archive.namelist())


def _outline(file: Traversable, wanted: Collection[str]) -> Outline:
    """What stands among catalogues and only looks like one is none of them, unless its place says so.

    A damaged one is told, unless its name says that nobody asks for it.
    """
    try:
        return outline_of(file)
    except NoCatalogueError:
        if language_in_path(file):
            raise
        return Outline("", "", 0)
    except CorpusError:
        language = language_in_path(file) or language_in_name(file)
        if not language or language_of(language) in wanted:
            raise
        return Outline("", language, 0)


def _stem(name: str) -> str:
    return _EXTENSION.sub("", name)


def _place(stem: str, language: str) -> str:
    """The same for all variants of a language: a catalogue's path with the language and its codeset taken out."""
    places = []
    for part in stem.split("/"):
        pieces: list[str] = []
        for piece in part.split("."):
            if language_of(bare(piece)) == language_of(language):
                pieces.append("*")
            elif pieces[-1:] != ["*"] or not _is_codeset(bare(piece)):
                pieces.append(piece)
        places.append(".".join(pieces))
    return "/".join(places)


def _is_codeset(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def _chosen(variants: list[_Variant], wanted: dict[str, str]) -> _Variant:
    """The nearest; but sr before sr@latin, and none that has less than half of what another in its script has."""
    language = wanted[language_of(variants[0].language)]
    variants = [variant for variant in variants if "@" not in variant.name] or variants
    script = script_of(_nearest(variants, language).language)
    variants = [variant for variant in variants if script_of(variant.language) == script]
    fullest = max(variant.fit for variant in variants)
    return _nearest([variant for variant in variants if 2 * variant.fit >= fullest], language)


def _nearest(variants: list[_Variant], wanted: str) -> _Variant:
    language = nearest_language(wanted, tuple(variant.language for variant in variants))
    return next(variant for variant in variants if variant.language == language)
