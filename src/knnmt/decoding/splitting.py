"""Split lines into sentences, because models are trained on single sentences."""

from dataclasses import dataclass

import sentencex

from knnmt.corpus import language_of

_NO_SPACES = {"zh", "ja", "th", "lo", "km", "my", "yue"}  # languages that do not put a space between sentences


@dataclass(frozen=True)
class Splitter:
    """Splits lines of the source language into sentences, and joins their translations."""

    source_lang: str | None
    target_lang: str | None

    def split(self, line: str) -> list[str]:
        """The sentences of a line, stripped; none for an empty line."""
        sentences = sentencex.segment(language_of(self.source_lang or "en"), line)
        return [stripped for sentence in sentences if (stripped := sentence.strip())]

    def join(self, sentences: list[str]) -> str:
        return ("" if language_of(self.target_lang or "en") in _NO_SPACES else " ").join(sentences)
