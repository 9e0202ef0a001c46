"""Faiss inverted lists with one-bit codes (RaBitQ), for stores of tens of thousands of entries and more.

The codes only choose candidates. They are stored in two layouts of about d/8 + 16 bytes per entry each: one to be
memory-mapped, and one to be held in memory (FastScan), which compares many entries per processor instruction.
"""

import warnings
from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np

from knnmt.datastore import Entries, Ids
from knnmt.datastore.index_record import FIX
from knnmt.errors import StoreError
from knnmt.out_of_memory import memory_errors
from knnmt.progress import progress
from knnmt.search.config import IndexConfig
from knnmt.search.keys import Floats, float32, key_blocks, one_thread, prefer_blas
from knnmt.search.parameters import (
    BLOCK_NUMBERS,
    PARALLEL_QUERIES,
    RECALL_QUERIES,
    SEED,
    TRAIN_ITERATIONS,
    graph_links,
    list_count,
    train_count,
)
from knnmt.search.recall import RecallTest, choose

MAPPED, HELD = "index.faiss", "fastscan.faiss"


class IVF:
    """An opened index. Search does not change it: threads may share one."""

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
        path = directory / _layout(directory, config, in_memory)
        try:
            # Maps the centres, and the lists if their layout can be mapped. IO_FLAG_MMAP maps only the lists, and
            # search then starts threads that read ahead.
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise StoreError(f"{path} is damaged; {FIX}") from error
        if index.d != config.dim or index.ntotal != config.entries or config.probes is None:
            raise StoreError(f"{path} is not what the config beside it says; {FIX}")
        return cls(index, config.probes, config.rescore)

    def candidates(self, queries: Floats, k: int, widen: int = 1) -> Ids:
        return self.probe(queries, self.rescore * k * widen, self.probes * widen)

    def probe(self, queries: Floats, count: int, probes: int) -> Ids:
        """The `count` nearest by code in the `probes` lists nearest to queries [rows, dim]; ids [rows, count]."""
        prefer_blas(self.faiss_index.d)
        probes = min(probes, self.faiss_index.nlist)
        options: dict[str, Any] = {"nprobe": probes, "qb": self.faiss_index.qb}
        if self.graph:
            options["quantizer_params"] = faiss.SearchParametersHNSW(efSearch=2 * probes)  # type: ignore[attr-defined]
        parameters = faiss.IVFRaBitQSearchParameters(**options)
        with one_thread(len(queries) < PARALLEL_QUERIES):
            ids: Ids = self.faiss_index.search(queries, min(count, self.faiss_index.ntotal), params=parameters)[1]
        return ids

    @classmethod
    def build(cls, entries: Entries, directory: Path) -> IndexConfig:
        lists = list_count(len(entries), entries.dim)
        centres = cluster(entries, lists)
        index = _empty_index(centres, graph_links(lists))
        _add(index, entries)
        layouts = {MAPPED: index, HELD: faiss.IndexIVFRaBitQFastScan(index)}
        files = {name: _write(layout, directory / name) for name, layout in layouts.items()}
        test = RecallTest(entries, RECALL_QUERIES, SEED)
        point = choose(cls(index, probes=1, rescore=1).probe, lists, test)
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


def cluster(entries: Entries, lists: int) -> Floats:
    """Centres of the lists [lists, dim], by k-means on a sample."""
    generator = np.random.default_rng(SEED)
    sample = generator.choice(len(entries), train_count(len(entries), lists, entries.dim), replace=False)
    keys = float32(entries.keys(entries.ids(np.sort(sample))))
    prefer_blas(entries.dim)
    centres: Floats | None = None
    with progress("Clustering", total=TRAIN_ITERATIONS, unit="keys") as meter:
        for _ in range(TRAIN_ITERATIONS):  # one at a time, to show progress
            means = faiss.Kmeans(
                entries.dim, lists, niter=1, seed=SEED, min_points_per_centroid=1, max_points_per_centroid=len(keys)
            )
            means.train(keys, init_centroids=centres)
            centres = means.centroids
            meter.advance(1, units=len(keys))
    assert centres is not None
    return centres


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


def _write(index: Any, path: Path) -> int:
    """Write an index; return its size in bytes."""
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # faiss reports no errno
        raise StoreError(
            f"cannot write {path}; make room or choose another directory, and run the same command again"
        ) from error
    return path.stat().st_size


def _add(index: Any, entries: Entries) -> None:
    with progress("Indexing", total=len(entries), unit="entries") as meter:
        for ids, keys in key_blocks(entries, BLOCK_NUMBERS // entries.dim):
            prefer_blas(entries.dim)
            index.add_with_ids(keys, ids)
            meter.advance(len(ids), units=len(ids))
