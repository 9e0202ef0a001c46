"""The centres of the lists of an index."""

import faiss
import numpy as np

from knnmt.datastore import Entries
from knnmt.progress import progress
from knnmt.search.exact import prefer_blas
from knnmt.search.keys import Floats, float32
from knnmt.search.parameters import SEED, TRAIN_ITERATIONS, train_count


def cluster(entries: Entries, lists: int) -> Floats:
    """Centres of the lists [lists, dim], by k-means on a sample."""
    generator = np.random.default_rng(SEED)
    sample = generator.choice(len(entries), train_count(len(entries), lists, entries.dim), replace=False)
    keys = float32(entries.keys(entries.ids(np.sort(sample))))
    prefer_blas(entries.dim)
    centres: Floats | None = None
    with progress("Clustering", total=TRAIN_ITERATIONS, unit="keys") as meter:
        for _ in range(TRAIN_ITERATIONS):  # one by one, for the progress to be seen
            means = faiss.Kmeans(
                entries.dim, lists, niter=1, seed=SEED, min_points_per_centroid=1, max_points_per_centroid=len(keys)
            )
            means.train(keys, init_centroids=centres)
            centres = means.centroids
            meter.advance(1, units=len(keys))
    assert centres is not None
    return centres
