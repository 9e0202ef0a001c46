"""Nearest-neighbour search in a store: exact for small stores, with an index for larger ones."""

from knnmt.search.build import build_index, check_kind, kept_kind, needs_index
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig
from knnmt.search.exact import Exclude
from knnmt.search.index import INDEX_KINDS, Index
from knnmt.search.neighbours import Neighbours
from knnmt.search.parameters import machine_memory
from knnmt.search.searcher import Searcher, describe_index

__all__ = [
    "INDEX_KINDS",
    "Candidates",
    "Exclude",
    "Index",
    "IndexConfig",
    "Neighbours",
    "Searcher",
    "build_index",
    "check_kind",
    "describe_index",
    "kept_kind",
    "machine_memory",
    "needs_index",
]
