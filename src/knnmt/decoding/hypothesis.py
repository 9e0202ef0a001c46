"""What a search finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence: its tokens, end of sentence included where there is one.

    `score` is its log p divided by its length to the power of the length penalty; None where `generate` is asked for
    one translation only: with scores it keeps those of all steps, which is gigabytes.
    """

    tokens: list[int]
    score: float | None
