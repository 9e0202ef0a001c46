"""Sentence pairs, and the interface of the readers that yield them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources.abc import Traversable

from knnmt.corpus.hashing import PairHashes, pair_hashes


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation.

    Attributes:
        line: counts from 1 within the file; the number of the unit or entry in formats without lines
        unfit: why it must not be used, in one word; empty for a good pair
    """

    source: str
    target: str
    origin: str
    line: int
    unfit: str = ""

    @cached_property
    def hashes(self) -> PairHashes:
        """Hashes of the normalised texts; computed once, because a build compares and stores them."""
        return pair_hashes(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Part:
    """What one call of a reader reads.

    Attributes:
        paths: one file, or a source and a target file; they may be in a wheel or zip archive
        origin: for pairs without an origin of their own
        languages: of source and target
        given: what the user named, for messages
    """

    paths: tuple[Traversable, ...]
    origin: str
    languages: tuple[str, str] | None
    given: str = ""


# Yields a pair for every line, also if a side is empty: the corpus skips and counts these.
Reader = Callable[[Part], Iterator[Pair]]
