"""The interface of an index, and the available kinds."""

from pathlib import Path
from typing import Protocol, Self

from knnmt.datastore import Entries
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig
from knnmt.search.flat import Flat
from knnmt.search.ivf import IVF
from knnmt.search.ivfpq import IVFPQ
from knnmt.search.keys import Floats


class Index(Protocol):
    """Proposes candidates; `Searcher` reads their keys and computes the distances, or uses the estimates.

    A new kind of index needs one file with such a class and one line in `INDEX_KINDS`.

    Attributes:
        in_memory: whether the searched data is held in memory
        size: number of entries in the index
        coded: whether it estimates distances from codes; otherwise exact distances replace its estimates everywhere
        rescore: candidates per neighbour; with 1, the first k candidates are the neighbours, whatever their exact
            distances are
    """

    in_memory: bool
    size: int
    coded: bool
    rescore: int

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        """Write the index files to an existing directory; `build_index` writes the config."""

    @classmethod
    def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool) -> Self:
        """Open what `build` wrote for these entries. Raises `StoreError` if it is missing or damaged.

        Args:
            in_memory: hold in memory what makes search faster; otherwise everything is memory-mapped
        """

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Candidates:
        """Candidates [rows, m] for the k nearest entries of queries [rows, dim], and the index's own estimates.

        `widen` is 2, 4, 8, … if the candidates of the previous call were not enough: return that many times more, and
        search that much further. If it is the number of entries, return all of them.
        """


INDEX_KINDS: dict[str, type[Index]] = {"flat": Flat, "ivf": IVF, "ivfpq": IVFPQ}
