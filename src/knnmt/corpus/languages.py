"""Which of the names that a corpus gives to its languages is the one a model means."""

import re
from functools import lru_cache

from langcodes import Language, closest_supported_match, tag_is_valid
from langcodes.tag_parser import LanguageTagError

from knnmt.errors import CorpusError


def language_of(code: str) -> str:
    """The language of any model's code, as ISO 639 writes it: de, de_DE, deu_Latn → de."""
    try:
        # NLLB's 'arb', 'pes', 'lvs' are what others call 'ar', 'fa', 'lv'
        language = str(Language.get(code).prefer_macrolanguage().language)
    except LanguageTagError:
        return code.casefold()
    return "nb" if language == "no" else language  # M2M100's 'no' is what others call 'nb'; Nynorsk is always 'nn'


def script_of(code: str) -> str:
    """What a language is written in where its code does not say otherwise: zh and zh_CN → Hans, zh_TW → Hant."""
    try:
        return str(Language.get(code).maximize().script)
    except LanguageTagError:
        return ""


def territory_of(code: str) -> str:
    """Where a language is at home if its code does not say otherwise: cs → CZ, sv → SE."""
    try:
        return str(Language.get(code).maximize().territory)
    except LanguageTagError:
        return ""


def bare(locale: str) -> str:
    """The language of a locale: de_DE.UTF-8 and de_DE@euro are de_DE."""
    return re.split("[.@]", locale.strip())[0]


def required_languages(languages: tuple[str, str] | None, path: object) -> tuple[str, str]:
    """Of source and target, for a file that can be read in more than one direction."""
    if languages is None:
        raise CorpusError(
            f"{path} holds texts by language, and the model does not say which it translates: "
            "say it with --source-lang and --target-lang."
        )
    return languages


def is_language(name: str) -> bool:
    """Whether it is a code that stands for a language."""
    return tag_is_valid(name)


@lru_cache(maxsize=1024)  # asked for every line
def nearest_language(wanted: str, names: tuple[str, ...]) -> str | None:
    """The one of `names` for the language `wanted` ('deu_Latn', 'de_DE' and 'de' are the same language).

    Of several the variant nearest to it: of de_AT and de_DE, for de the second; None where all are other languages.
    """
    if wanted in names:
        return wanted
    fitting = [name for name in names if language_of(name) == language_of(wanted)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return closest_supported_match(wanted, fitting) or fitting[0]
