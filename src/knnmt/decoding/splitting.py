"""A line may hold several sentences; models are trained on single ones."""

from dataclasses import dataclass

import langcodes
import sentencex
from langcodes.tag_parser import LanguageTagError

_NO_SPACES = {"zh", "ja", "th", "lo", "km", "my", "yue"}  # languages that do not put a space between sentences


def language_of(code: str | None) -> str:
    """The ISO 639-1 language of any model's code: de, de_DE, deu_Latn → de."""
    if not code:
        return "en"
    try:
        return langcodes.Language.get(code).language or "en"
    except LanguageTagError:
        return "en"


@dataclass(frozen=True)
class Splitter:
    """Splits lines of the source language, and puts translations in the target language together again."""

    source_lang: str | None
    target_lang: str | None

    def split(self, line: str) -> list[str]:
        """The sentences of a line, stripped; none for an empty line."""
        sentences = sentencex.segment(language_of(self.source_lang), line)
        return [stripped for sentence in sentences if (stripped := sentence.strip())]

    def join(self, sentences: list[str]) -> str:
        return ("" if language_of(self.target_lang) in _NO_SPACES else " ").join(sentences)
