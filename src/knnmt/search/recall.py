"""Recall: the share of the exact neighbours that an index finds, and the search parameters that reach the aim.

Measured when an index is built, with keys of the store as queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from knnmt.datastore import Entries, Ids
from knnmt.progress import Meter, progress
from knnmt.search.exact import nearest, squared_distances
from knnmt.search.keys import Floats, float32, key_blocks
from knnmt.search.parameters import (
    BLOCK_NUMBERS,
    CHOSEN_DEPTH,
    RECALL_AIM,
    RECALL_DEPTHS,
    RESCORE_COST,
    RESCORES,
    probe_counts,
)

# queries [rows, dim], number of candidates wanted, number of lists to probe → candidate ids [rows, candidates]
ProbeLists = Callable[[Floats, int, int], Ids]


class RecallTest:
    """Compares an index with exact search on stored keys, without the entries of each query's own sentence.

    An entry counts as a hit if it is no farther than the last exact neighbour: in a repetitive corpus several entries
    have the same distance, and any of them is right.

    Args:
        entries: the entries to search; the queries are a sample of them
        count: number of queries
        seed: seed of the sample
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
        self.exact: Floats = np.sort(self.rank(found.ids), axis=1)[:, : max(RECALL_DEPTHS)]  # [queries, depth]

    def _blocks(self, meter: Meter) -> Iterator[tuple[Ids, Floats]]:
        for ids, keys in key_blocks(self.entries, BLOCK_NUMBERS // self.entries.dim):
            yield ids, keys
            meter.advance(len(ids), units=len(ids))

    def rank(self, candidates: Ids) -> Floats:
        """Exact distances [queries, m] of the candidates [queries, m] of an index, in the order of the index.

        Entries of the query's own sentence are removed, and the end is padded with +inf.
        """
        left_out = (candidates < 0) | (self.entries.sentence(candidates) == self.own[:, None])
        order = np.argsort(left_out, axis=1, kind="stable")
        kept = np.take_along_axis(np.where(left_out, -1, candidates), order, axis=1)
        return squared_distances(self.entries, self.queries, kept)

    def recall(self, ranked: Floats, depth: int, rescore: int) -> float:
        """Recall@depth, if the first rescore · depth columns of `rank` are used."""
        exact = self.exact[:, :depth]
        exists = np.isfinite(exact)
        farthest = np.max(exact, axis=1, initial=0.0, where=exists)  # [queries]
        hits = np.count_nonzero(ranked[:, : rescore * depth] <= farthest[:, None], axis=1)
        return float(np.minimum(hits, exists.sum(axis=1)).sum() / max(1, exists.sum()))


@dataclass(frozen=True)
class OperatingPoint:
    """Probed lists, candidates per neighbour, and the recall@depth they give."""

    probes: int
    rescore: int
    recall: dict[str, float]


def choose(probe: ProbeLists, lists: int, test: RecallTest) -> OperatingPoint:
    """The cheapest probes and rescore that reach the aim; the largest if none does."""
    list_size = len(test.entries) / lists
    width = max(RESCORES) * max(RECALL_DEPTHS) + test.longest
    least, chosen = np.inf, None
    with progress("Choosing probes", unit="queries") as meter:
        for probes in probe_counts(lists):
            if probes * list_size >= least:
                break
            ranked = test.rank(probe(test.queries, width, probes))
            reached = [rescore for rescore in RESCORES if test.recall(ranked, CHOSEN_DEPTH, rescore) >= RECALL_AIM]
            rescore = reached[0] if reached else max(RESCORES)
            cost = probes * list_size + RESCORE_COST * CHOSEN_DEPTH * rescore if reached else np.inf
            if cost <= least:
                least, chosen = cost, OperatingPoint(probes, rescore, recall_at_depths(test, ranked, rescore))
            meter.advance(units=len(test.queries))
    assert chosen is not None
    return chosen


def recall_at_depths(test: RecallTest, ranked: Floats, rescore: int) -> dict[str, float]:
    """Recall at every reported depth."""
    return {str(depth): round(test.recall(ranked, depth, rescore), 4) for depth in RECALL_DEPTHS}
