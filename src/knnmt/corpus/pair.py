"""What a corpus is made of, and what a reader is given."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation; `line` counts from 1 within the file."""

    source: str
    target: str
    origin: str
    line: int


@dataclass(frozen=True, slots=True)
class Part:
    """The file of a corpus (two where source and target stand apart) that one call of a reader reads.

    `origin` is for pairs that bring none of their own; `languages` are those of source and target.
    """

    paths: tuple[Path, ...]
    origin: str
    languages: tuple[str, str] | None


# Yields a pair for every line, those with an empty side too: the corpus skips and counts them.
Reader = Callable[[Part], Iterator[Pair]]
