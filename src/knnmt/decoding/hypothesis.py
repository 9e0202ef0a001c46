"""What a search finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence: its tokens, end of sentence included where there is one.

    `score` is log p / length ** length_penalty. It is None where `generate` returns one translation only: to report
    scores, `generate` would keep those of all steps, which takes gigabytes.
    """

    tokens: list[int]
    score: float | None
