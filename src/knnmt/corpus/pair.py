"""What a corpus is made of, and what a reader is given."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources.abc import Traversable

from knnmt.corpus.hashing import PairHashes, pair_hashes


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation.

    Attributes:
        line: counts from 1 within the file; the unit's or entry's number in files that have no lines
        unfit: in a word, why it must not be used; empty for a good pair
    """

    source: str
    target: str
    origin: str
    line: int
    unfit: str = ""

    @cached_property
    def hashes(self) -> PairHashes:
        """Of the normalised texts; computed once, because a build needs them to compare and again to store."""
        return pair_hashes(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Part:
    """The file of a corpus (two where source and target stand apart) that one call of a reader reads.

    `origin` is for pairs that bring none of their own; `languages` are those of source and target.
    A file may lie in a wheel or zip archive; `given` is what the user named, for messages.
    """

    paths: tuple[Traversable, ...]
    origin: str
    languages: tuple[str, str] | None
    given: str = ""


# Yields a pair for every line, those with an empty side too: the corpus skips and counts them.
Reader = Callable[[Part], Iterator[Pair]]
