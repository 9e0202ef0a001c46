"""Exact search, for small stores and for entries that an index does not cover yet."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from knnmt.datastore import Entries, Ids
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig, flat_config
from knnmt.search.exact import nearest
from knnmt.search.keys import Floats, key_blocks
from knnmt.search.parameters import BLOCK_NUMBERS, FLAT_RESCORE, FLAT_RESIDENT_BYTES


class Flat:
    """Holds the keys in memory as float32 up to a maximum size; more keys are read from disk in every search."""

    coded = False
    rescore = FLAT_RESCORE

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.size = len(entries)
        self.block = max(1, BLOCK_NUMBERS // entries.dim)
        self.in_memory = 4 * len(entries) * entries.dim <= FLAT_RESIDENT_BYTES
        self.resident = list(key_blocks(entries, len(entries))) if self.in_memory else None

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        return flat_config(entries)

    @classmethod
    def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool = False) -> Self:
        return cls(entries)

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Candidates:
        blocks: Iterable[tuple[Ids, Floats]] = self.resident or key_blocks(self.entries, self.block)
        return nearest(blocks, queries, min(FLAT_RESCORE * k * widen, len(self.entries)))
