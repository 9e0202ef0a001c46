"""What an index has to do, and the kinds of index that can be asked for."""

from pathlib import Path
from typing import Protocol, Self

from knnmt.datastore import Entries, Ids
from knnmt.search.config import IndexConfig
from knnmt.search.flat import Flat
from knnmt.search.ivf import IVF
from knnmt.search.keys import Floats


class Index(Protocol):
    """Proposes entries that may be near; `Searcher` reads their keys and computes the distances.

    A new kind of index is one file with such a class and one line in `INDEX_KINDS`.

    Attributes:
        in_memory: whether what is searched is held in memory
        size: how many entries it searches
    """

    in_memory: bool
    size: int

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        """Write what the index needs to a directory that exists; `build_index` writes the config."""

    @classmethod
    def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool) -> Self:
        """Open what `build` wrote for these entries. Raises `StoreError` where that is missing or damaged.

        Args:
            in_memory: hold in memory what makes searching quicker; else everything is mapped
        """

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Ids:
        """Ids [rows, m] among which the k nearest of queries [rows, dim] should be; −1 where there are no more.

        Nearest first as far as the index knows. `widen` is 2, 4, 8, … where the candidates of the call before
        were not enough: that many times more are wanted, and looked for farther away.
        """


INDEX_KINDS: dict[str, type[Index]] = {"flat": Flat, "ivf": IVF}
