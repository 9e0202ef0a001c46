"""Compare language codes of corpora and models."""

import re
from functools import lru_cache

from langcodes import Language, closest_supported_match, tag_is_valid
from langcodes.tag_parser import LanguageTagError

from knnmt.errors import CorpusError


def language_of(code: str) -> str:
    """The ISO 639 language of any code: de, de_DE, deu_Latn → de."""
    try:
        # NLLB's 'arb', 'pes', 'lvs' are what others call 'ar', 'fa', 'lv'
        language = str(Language.get(code).prefer_macrolanguage().language)
    except LanguageTagError:
        return code.casefold()
    return "nb" if language == "no" else language  # M2M100's 'no' is what others call 'nb'; Nynorsk is always 'nn'


def script_of(code: str) -> str:
    """The script of a language, by default its usual one: zh and zh_CN → Hans, zh_TW → Hant."""
    try:
        return str(Language.get(code).maximize().script)
    except LanguageTagError:
        return ""


def territory_of(code: str) -> str:
    """The territory of a language, by default its main one: cs → CZ, sv → SE."""
    try:
        return str(Language.get(code).maximize().territory)
    except LanguageTagError:
        return ""


def bare(locale: str) -> str:
    """The language of a locale: de_DE.UTF-8 and de_DE@euro are de_DE."""
    return re.split("[.@]", locale.strip())[0]


def required_languages(languages: tuple[str, str] | None, path: object) -> tuple[str, str]:
    """The languages, for a file that needs them; raises CorpusError if they are not known."""
    if languages is None:
        raise CorpusError(
            f"{path} holds texts by language, and the model does not say which it translates: "
            "say it with --source-lang and --target-lang."
        )
    return languages


def is_language(name: str) -> bool:
    """Whether the name is a valid language code."""
    return tag_is_valid(name)


@lru_cache(maxsize=1024)  # called for every line
def nearest_language(wanted: str, names: tuple[str, ...]) -> str | None:
    """The one of `names` for the language `wanted` ('deu_Latn', 'de_DE' and 'de' are the same language).

    Of several variants it is the nearest: for de, de_DE rather than de_AT. None if no name fits.
    """
    if wanted in names:
        return wanted
    fitting = [name for name in names if language_of(name) == language_of(wanted)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return closest_supported_match(wanted, fitting) or fitting[0]
