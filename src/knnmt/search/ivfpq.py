"""Faiss inverted lists with product-quantised codes: the index of the paper's line of work, for comparisons with it.

As in the authors' code: 4,096 lists of which 32 are probed, and 64 codes of 8 bits of the difference between a key and
the centre of its list. The codes alone decide which entries are the k nearest; exact distances are computed of these
only, and only if they are wanted.
"""

from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors
from knnmt.progress import progress
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig
from knnmt.search.keys import Floats, prefer_blas
from knnmt.search.lists import cluster, fill, read, search_lists, training_keys, write
from knnmt.search.parameters import (
    PQ_BITS,
    PQ_PROBES,
    RECALL_DEPTHS,
    RECALL_QUERIES,
    SEED,
    pq_bits,
    pq_codes,
    pq_list_count,
)
from knnmt.search.recall import RecallTest, recall_at_depths

FILE = "index.faiss"

# Faiss can hold a table of products of all centres and code words: 4,096 × 64 × 256 numbers are 268 MB, and estimates
# from it are less precise.
WITHOUT_TABLE = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE


class IVFPQ:
    """An opened index. Search does not change it: threads may share one."""

    coded = True
    rescore = 1

    def __init__(self, index: Any, probes: int, in_memory: bool) -> None:
        self.faiss_index = index
        self.size = int(index.ntotal)
        self.probes = probes
        self.in_memory = in_memory

    @classmethod
    @memory_errors("open the store's index", also=", use --mapped")
    def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool = False) -> Self:
        if problem := config.file_problem(directory, FILE):
            raise StoreError(problem)
        flags = WITHOUT_TABLE if in_memory else WITHOUT_TABLE | faiss.IO_FLAG_MMAP_IFC
        return cls(read(directory / FILE, config, flags), config.parameters["probes"], in_memory)

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Candidates:
        probes = min(self.probes * widen, self.faiss_index.nlist)
        return search_lists(self.faiss_index, queries, k * widen, faiss.SearchParametersIVF(nprobe=probes))  # type: ignore[call-arg]

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        lists = pq_list_count(len(entries))
        index = _trained(cluster(entries, lists), training_keys(entries, lists))
        fill(index, entries)
        files = {FILE: write(index, directory / FILE)}
        probes = min(PQ_PROBES, lists)
        test = RecallTest(entries, RECALL_QUERIES, SEED)
        found = cls(index, probes, in_memory=True).candidates(test.queries, max(RECALL_DEPTHS) + test.longest)
        codes, bits = index.pq.M, index.pq.nbits
        return IndexConfig(
            kind="ivfpq",
            requested="ivfpq",
            engine="faiss",
            index=f"IVF{lists},PQ{codes}{'' if bits == PQ_BITS else f'x{bits}'}",
            segments=dict(entries.checksums),
            entries=len(entries),
            dim=entries.dim,
            rescore=cls.rescore,
            recall=recall_at_depths(test, test.rank(found.ids), cls.rescore),
            parameters={
                "probes": probes,
                "lists": lists,
                "by_residual": int(index.by_residual),
                "seed": SEED,
                "recall_queries": RECALL_QUERIES,
            },
            files=files,
        )


def _trained(centres: Floats, keys: Floats) -> Any:
    """An empty index with these centres [lists, dim], whose code words are learned from keys [n, dim]."""
    lists, dim = centres.shape
    bits = pq_bits(len(keys))
    quantizer = faiss.IndexFlatL2(dim)
    quantizer.add(centres)
    index: Any = faiss.IndexIVFPQ(quantizer, dim, lists, pq_codes(dim), bits)
    index.by_residual = True  # what faiss does for "IVF4096,PQ64"
    index.use_precomputed_table = -1  # see WITHOUT_TABLE
    index.pq.cp.seed = SEED
    index.pq.cp.min_points_per_centroid = 1
    prefer_blas(dim)
    with progress("Learning code words", total=1, unit="keys") as meter:
        index.train(keys if len(keys) >= 2**bits else np.resize(keys, (2**bits, dim)))  # one key: twice, for two words
        meter.advance(1, units=len(keys))
    return index
