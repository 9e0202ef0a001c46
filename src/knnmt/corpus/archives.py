"""The catalogues in a directory, a wheel or a zip archive that are between a model's languages."""

import os
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from knnmt.corpus.catalogue import language_in_path, languages_of
from knnmt.corpus.languages import language_of, nearest_language, required_languages
from knnmt.errors import CorpusError

_ARCHIVES = (".whl", ".zip")
_CATALOGUES = (".po", ".mo", ".po.gz", ".mo.gz")


def holds_catalogues(path: Path) -> bool:
    return os.path.isdir(path) or path.suffix.lower() in _ARCHIVES


def catalogues_in(path: Path, languages: tuple[str, str] | None) -> list[tuple[str, Traversable]]:
    """Names within `path` with the files to read, in order.

    Of a catalogue's variants (de_AT, de_DE) the one nearest to the model's language, and of .po and .mo the first,
    which knows what is fuzzy.
    """
    found = sorted(_catalogues(path), key=lambda each: (each[0].lower().removesuffix(".gz").endswith(".mo"), each[0]))
    if not found:
        raise CorpusError(f"{path} holds no message catalogue (.po, .mo): name the corpus files in it.")
    languages = required_languages(languages, path)
    wanted = {language_of(language): language for language in languages}
    variants: dict[str, dict[str, tuple[str, Traversable]]] = defaultdict(dict)  # by catalogue, then language
    others: set[str] = set()
    for name, file in found:
        translations = language_in_path(file)
        if not translations or language_of(translations) in wanted:  # no other needs to be opened
            messages, translations = _languages(file)
            if {language_of(messages), language_of(translations)} == set(wanted):
                variants[_place(name, translations)].setdefault(translations, (name, file))
                continue
        others.add(translations or "unknown")
    if not variants:
        raise CorpusError(
            f"{path} has no catalogue between {languages[0]} and {languages[1]} (it has {', '.join(sorted(others))}): "
            "give one of the model's languages."
        )
    chosen = []
    for files in variants.values():
        language = nearest_language(wanted[language_of(next(iter(files)))], tuple(files))
        assert language is not None  # all of them are this language
        chosen.append(files[language])
    return sorted(chosen, key=lambda each: each[0])


def _catalogues(path: Path) -> Iterator[tuple[str, Traversable]]:
    try:
        if path.is_dir():
            files: Iterator[tuple[str, Traversable]] = (
                (file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file()
            )
        else:
            archive = zipfile.ZipFile(path)
            files = ((name, zipfile.Path(archive, name)) for name in archive.namelist())
        for name, file in files:
            parts = PurePosixPath(name).parts
            if name.lower().endswith(_CATALOGUES) and not parts[-1].startswith(".") and "__MACOSX" not in parts:
                yield name, file
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise CorpusError(f"{path} cannot be read ({error}): check it, or copy it again.") from error


def _languages(file: Traversable) -> tuple[str, str]:
    """What stands among catalogues and only looks like one is none of them, unless its place says so."""
    try:
        return languages_of(file)
    except CorpusError:
        if language_in_path(file):
            raise
        return "", ""


def _place(name: str, language: str) -> str:
    """The same for all variants of a language: a catalogue's path without language and extension."""
    path = PurePosixPath(name[: -len(".gz")] if name.lower().endswith(".gz") else name).with_suffix("")
    return "/".join("*" if language_of(part) == language_of(language) else part for part in path.parts)
