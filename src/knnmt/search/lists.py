"""Inverted lists of faiss, whatever codes they hold: their centres, how they are filled, written, read and searched."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from knnmt.datastore import Entries
from knnmt.errors import StoreError
from knnmt.progress import progress
from knnmt.search.candidates import Candidates
from knnmt.search.config import IndexConfig
from knnmt.search.keys import Floats, float32, key_blocks, one_thread, prefer_blas
from knnmt.search.parameters import BLOCK_NUMBERS, PARALLEL_QUERIES, SEED, TRAIN_ITERATIONS, train_count


def training_keys(entries: Entries, lists: int) -> Floats:
    """A sample of the keys [n, dim], of a size that suffices for so many lists."""
    generator = np.random.default_rng(SEED)
    sample = generator.choice(len(entries), train_count(len(entries), lists, entries.dim), replace=False)
    return float32(entries.keys(entries.ids(np.sort(sample))))


def cluster(entries: Entries, lists: int) -> Floats:
    """Centres of the lists [lists, dim], by k-means on a sample."""
    keys = training_keys(entries, lists)
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


def fill(index: Any, entries: Entries) -> None:
    """Add all entries to a trained index."""
    with progress("Indexing", total=len(entries), unit="entries") as meter:
        for ids, keys in key_blocks(entries, BLOCK_NUMBERS // entries.dim):
            prefer_blas(entries.dim)
            index.add_with_ids(keys, ids)
            meter.advance(len(ids), units=len(ids))


def write(index: Any, path: Path) -> int:
    """Write an index; return its size in bytes."""
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # faiss reports no errno
        raise StoreError(
            f"cannot write {path}; make room or choose another directory, and run the same command again"
        ) from error
    return path.stat().st_size


def read(path: Path, config: IndexConfig, flags: int) -> Any:
    """Read an index whose file has the size that its config says. Raises `StoreError` if it is not what was written."""
    try:
        index = faiss.read_index(str(path), flags)
    except RuntimeError as error:
        raise StoreError(f"{path} is damaged; {config.fix}") from error
    if index.d != config.dim or index.ntotal != config.entries or config.probes is None:
        raise StoreError(f"{path} is not what the config beside it says; {config.fix}")
    return index


def search_lists(index: Any, queries: Floats, count: int, parameters: Any) -> Candidates:
    """The `count` nearest to queries [rows, dim] by code, in the lists that the parameters of faiss say."""
    prefer_blas(index.d)
    with one_thread(len(queries) < PARALLEL_QUERIES):
        estimates, ids = index.search(queries, min(count, index.ntotal), params=parameters)
    return Candidates(ids, estimates)
