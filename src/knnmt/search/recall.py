"""How much of what exact search finds an engine finds: measured at build, on keys of the store itself."""

from collections.abc import Iterator

import numpy as np

from knnmt.datastore import Entries, Ids
from knnmt.progress import Meter, progress
from knnmt.search.distance import squared_distances
from knnmt.search.exact import nearest
from knnmt.search.keys import Floats, float32, key_blocks
from knnmt.search.parameters import BLOCK_NUMBERS, RECALL_DEPTHS


class RecallTest:
    """Stored keys as queries; entries of a query's own sentence are taken out of both lists.

    An entry counts as found if it is no farther than the last of the exact list: in a corpus that repeats itself
    several entries are equally far, and any of them will do.

    Args:
        entries: what is searched, and where the queries are taken from
        count: how many queries
        seed: of their choice
    """

    def __init__(self, entries: Entries, count: int, seed: int) -> None:
        self.entries = entries
        chosen = np.random.default_rng(seed).choice(len(entries), min(count, len(entries)), replace=False)
        ids = entries.ids(np.sort(chosen))
        self.queries: Floats = float32(entries.keys(ids))  # [queries, dim]
        self.own: Ids = entries.sentence(ids)  # [queries]
        self.longest = int(entries.sentence_lengths(ids).max())
        with progress("Searching exactly", total=len(entries), unit="entries") as meter:
            found = nearest(self._blocks(meter), self.queries, min(max(RECALL_DEPTHS) + self.longest, len(entries)))
        self.exact: Floats = np.sort(self.rank(found), axis=1)[:, : max(RECALL_DEPTHS)]  # [queries, depth]

    def _blocks(self, meter: Meter) -> Iterator[tuple[Ids, Floats]]:
        for ids, keys in key_blocks(self.entries, BLOCK_NUMBERS // self.entries.dim):
            yield ids, keys
            meter.advance(len(ids), units=len(ids))

    def rank(self, candidates: Ids) -> Floats:
        """Exact distances [queries, m] of an engine's candidates [queries, m] in the engine's order.

        Entries of the query's own sentence are left out, the rest moves up, +inf fills the end.
        """
        left_out = (candidates < 0) | (self.entries.sentence(candidates) == self.own[:, None])
        order = np.argsort(left_out, axis=1, kind="stable")
        kept = np.take_along_axis(np.where(left_out, -1, candidates), order, axis=1)
        return squared_distances(self.entries, self.queries, kept)

    def recall(self, ranked: Floats, depth: int, rescore: int) -> float:
        """Recall@depth, if the first rescore · depth of what `rank` gave are looked at."""
        exact = self.exact[:, :depth]
        exists = np.isfinite(exact)
        farthest = np.max(exact, axis=1, initial=0.0, where=exists)  # [queries]
        hits = np.count_nonzero(ranked[:, : rescore * depth] <= farthest[:, None], axis=1)
        return float(np.minimum(hits, exists.sum(axis=1)).sum() / max(1, exists.sum()))
