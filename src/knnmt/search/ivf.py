"""Faiss inverted lists with one-bit codes (RaBitQ), for stores of tens of thousands of entries and more.

The codes only choose candidates. They are stored in two layouts of about d/8 + 16 bytes per entry each: one to be
memory-mapped, and one to be held in memory (FastScan), which compares many entries per processor instruction.
"""

import warnings
from pathlib import Path
from typing import Any, Self

import faiss

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig
from knnmt.search.keys import Floats
from knnmt.search.lists import cluster, fill, read, search_lists, write
from knnmt.search.parameters import RECALL_QUERIES, SEED, graph_links, list_count
from knnmt.search.recall import RecallTest, choose

MAPPED, HELD = "index.faiss", "fastscan.faiss"


class IVF:
    """An opened index. Search does not change it: threads may share one."""

    coded = True

    def __init__(self, index: Any, probes: int, rescore: int) -> None:
        self.faiss_index = index
        self.size = int(index.ntotal)
        self.in_memory = isinstance(index, faiss.IndexIVFRaBitQFastScan)
        self.graph = isinstance(faiss.downcast_index(index.quantizer), faiss.IndexHNSW)
        self.probes = probes
        self.rescore = rescore

    @classmethod
    @memory_errors("open the store's index", also=", use --mapped")
    def open(cls, directory: Path, config: IndexConfig, entries: Entries, in_memory: bool = False) -> Self:
        # Maps the centres, and the lists if their layout can be mapped. IO_FLAG_MMAP maps only the lists, and search
        # then starts threads that read ahead.
        index = read(directory / _layout(directory, config, in_memory), config, faiss.IO_FLAG_MMAP_IFC)
        return cls(index, config.parameters["probes"], config.rescore)

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Candidates:
        return self.probe(queries, self.rescore * k * widen, self.probes * widen)

    def probe(self, queries: Floats, count: int, probes: int) -> Candidates:
        """The `count` nearest by code in the `probes` lists nearest to queries [rows, dim]."""
        probes = min(probes, self.faiss_index.nlist)
        options: dict[str, Any] = {"nprobe": probes, "qb": self.faiss_index.qb}
        if self.graph:
            options["quantizer_params"] = faiss.SearchParametersHNSW(efSearch=2 * probes)  # type: ignore[attr-defined]
        parameters = faiss.IVFRaBitQSearchParameters(**options)
        return search_lists(self.faiss_index, queries, count, parameters)

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        lists = list_count(len(entries), entries.dim)
        centres = cluster(entries, lists)
        index = _empty_index(centres, graph_links(lists))
        fill(index, entries)
        layouts = {MAPPED: index, HELD: faiss.IndexIVFRaBitQFastScan(index)}
        files = {name: write(layout, directory / name) for name, layout in layouts.items()}
        test = RecallTest(entries, RECALL_QUERIES, SEED)
        trial = cls(index, probes=1, rescore=1)
        point = choose(lambda *probe: trial.probe(*probe).ids, lists, test)
        return IndexConfig(
            kind="ivf",
            requested="ivf",
            engine="faiss",
            index=f"IVF{lists}{f'_HNSW{graph_links(lists)}' if graph_links(lists) else ''},RaBitQ",
            segments=dict(entries.checksums),
            entries=len(entries),
            dim=entries.dim,
            rescore=point.rescore,
            recall=point.recall,
            parameters={"probes": point.probes, "lists": lists, "seed": SEED, "recall_queries": RECALL_QUERIES},
            files=files,
        )


def _layout(directory: Path, config: IndexConfig, in_memory: bool) -> str:
    """The name of the file to open. The mapped layout finds the same entries more slowly: it replaces a lost file."""
    if in_memory and HELD in config.files:
        problem = config.file_problem(directory, HELD)
        if problem is None:
            return HELD
        warnings.warn(f"{problem}. Until then {MAPPED} is searched, which is slower.", stacklevel=5)
    if problem := config.file_problem(directory, MAPPED):
        raise StoreError(problem)
    return MAPPED


def _empty_index(centres: Floats, links: int) -> Any:
    lists, dim = centres.shape
    quantizer: Any = faiss.IndexFlatL2(dim)
    if links:
        quantizer = faiss.IndexHNSWFlat(dim, links)
        quantizer.hnsw.efConstruction = 100
        quantizer.hnsw.efSearch = 32
    quantizer.add(centres)
    index = faiss.IndexIVFRaBitQ(quantizer, dim, lists, faiss.METRIC_L2)
    index.train(centres)  # already clustered; the rest of training takes keys but does not use them
    return index
