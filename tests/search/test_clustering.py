import numpy as np

from knnmt.datastore import Entries
from knnmt.search import clustering
from knnmt.search.clustering import cluster


def test_centres_are_where_the_keys_are(toolbox):
    """More lists than there are heaps: every heap has a centre near its middle, and no centre is elsewhere."""
    random = np.random.default_rng(0)
    heaps = 20 * random.normal(size=(10, 16))
    keys = (np.repeat(heaps, 100, axis=0) + 0.1 * random.normal(size=(1000, 16))).astype(np.float16)
    centres = cluster(Entries([toolbox.make_segment(1, keys[:400]), toolbox.make_segment(2, keys[400:])]), 30)
    assert centres.shape == (30, 16)
    distances = ((centres[:, None] - heaps) ** 2).sum(2)
    assert (distances.min(axis=0) < 1).all()
    assert (distances.min(axis=1) < 1).all()


def test_seeded_and_on_a_sample(toolbox, monkeypatch):
    entries = Entries([toolbox.make_segment(1, toolbox.clustered(np.random.default_rng(1), 2_000, 8))])
    read = []
    keys = entries.keys
    monkeypatch.setattr(entries, "keys", lambda ids: read.append(len(ids)) or keys(ids))
    first, second = cluster(entries, 20), cluster(entries, 20)
    assert (first == second).all()
    assert read == [640, 640]
    monkeypatch.setattr(clustering, "SEED", 2)
    assert (cluster(entries, 20) != first).any()
