"""Check by the languages in their names that plain text files are in the order source, target."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from knnmt.corpus.languages import is_language, language_of, territory_of
from knnmt.errors import CorpusError

_FORCE = "or use --force if it is right as it is"
_SIDES = {"src", "source", "tgt", "trg", "target", "ref"}  # although src and ref are also language codes
_SAYS_NOTHING = {"gz", "txt"}
# de, deu, deu_Latn, de-DE; not de-en, which is a direction, nor pt-br, which could be one
_CODE = re.compile(r"[a-z]{2,3}([-_][A-Z][a-z]{3})?([-_][A-Z]{2})?")

_Languages = tuple[str, str] | None


def check_names(pairs: Sequence[tuple[str, str]], languages: _Languages) -> None:
    """Raise CorpusError if a name has the wrong language; names without a language are accepted."""
    _check_shell_order([name for pair in pairs for name in pair], languages)
    for source, target in pairs:
        _check_pair(source, target, languages)


def _check_pair(source: str, target: str, languages: _Languages) -> None:
    named = _named_languages(source, target, languages)
    own = (language_of(languages[0]), language_of(languages[1])) if languages else ("", "")
    if named[0] and named[0] == named[1] and not (languages and own[0] == own[1]):
        raise CorpusError(
            f"{source} and {target} are both {named[0]} by their names: "
            f"give the source file and after it the target file, as in train.de train.en, {_FORCE}."
        )
    if languages is None:
        return
    swapped = all(name in ("", language) for name, language in zip(named, own[::-1], strict=True))
    ways = (f"from {languages[0]}", f"into {languages[1]}")
    for file, name, language, other, way in zip((source, target), named, own, own[::-1], ways, strict=True):
        # the code of a group of languages (roa, mul) has three letters or more
        if name and name != language and (name == other or len(language) == 2):
            advice = (
                f"give the source file first, as in `{shlex.join([target, source])}`"
                if swapped
                else f"give one in {language}"
            )
            raise CorpusError(f"{file} is {name} by its name, but the model translates {way}: {advice}, {_FORCE}.")


def _check_shell_order(names: Sequence[str], languages: _Languages) -> None:
    """Refuse all sources followed by all targets, as the shell expands `*.de *.en`."""
    half = len(names) // 2
    apart = {_apart(first, second, languages) for first, second in zip(names[:half], names[half:], strict=True)}
    if half < 2 or len(apart) != 1 or None in apart or _apart(names[0], names[1], languages):
        return
    [(first, second)] = [sides for sides in apart if sides]
    turned = languages and _language(second, languages) == language_of(languages[0])
    sources, targets = (names[half:], names[:half]) if turned else (names[:half], names[half:])
    right = shlex.join([name for pair in zip(sources[:2], targets[:2], strict=True) for name in pair])
    raise CorpusError(
        f"{names[0]} and {names[1]} are both {first} by their names: give each source file and after it its "
        f"target file, as in `{right}{' …' if half > 2 else ''}`, {_FORCE}."
    )


def _named_languages(source: str, target: str, languages: _Languages) -> tuple[str, str]:
    """The language in each name, or an empty string.

    It is the part in which the names differ (train.de.tok, train.en.tok), or else a common part (a.de, b.de).
    """
    if apart := _apart(source, target, languages):
        return _language(apart[0], languages), _language(apart[1], languages)
    first, second = _parts(source), _parts(target)
    if first[-1] != second[-1]:
        return _extension(first, languages), _extension(second, languages)
    for one, other in zip(first[:0:-1], second[:0:-1], strict=False):
        here = _language(one, languages), _language(other, languages)
        if one != other or all(here):
            return here if all(here) else ("", "")
    return "", ""


def _extension(parts: list[str], languages: _Languages) -> str:
    """The language of the last part; a whole name (is.txt) may be a word, so only the model's languages count."""
    language = _language(parts[-1], languages)
    known = languages is not None and language in map(language_of, languages)
    return language if known or len(parts) > 1 else ""


def _apart(one: str, other: str, languages: _Languages) -> tuple[str, str] | None:
    """The two parts in which the names differ, if they differ only in the language or side; otherwise None."""
    first, second = _parts(one), _parts(other)
    different = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
    if len(first) != len(second) or len(different) != 1:
        return None
    [(a, b)] = different
    return (a, b) if all(part in _SIDES or _language(part, languages) for part in (a, b)) else None


def _parts(name: str) -> list[str]:
    parts = PurePath(name).name.split(".")
    while len(parts) > 1 and parts[-1].lower() in _SAYS_NOTHING:
        parts.pop()
    return parts


def _language(part: str, languages: _Languages) -> str:
    """The language of a part: any code of the model's languages, else only two letters (tok or out is hardly one)."""
    code = part.lower() if len(part) <= 3 else part
    if code in _SIDES or not _CODE.fullmatch(code):
        return ""
    for own in languages or ():
        if language_of(code) == language_of(own):
            return language_of(own)
    for own in languages or ():
        if code.upper() == territory_of(own):  # .cz, .jp, and .se, which is a language too
            return language_of(own)
    return language_of(code) if len(code) == 2 and is_language(code) else ""
