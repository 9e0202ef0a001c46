"""How much of what exact search finds an engine finds: measured at build, on keys of the store itself."""

from collections.abc import Iterator

import numpy as np

from knnmt.progress import Meter, progress
from knnmt.search.distance import squared_distances
from knnmt.search.exact import nearest
from knnmt.search.pairs import ROW_BITS, ROW_MASK, Floats, Ids, Pairs
from knnmt.search.parameters import BLOCK_NUMBERS, RECALL_DEPTHS

LONGEST_SENTENCE = 1 << 16  # positions are stored in 16 bits


class RecallTest:
    """Stored keys as queries; pairs of a query's own sentence are taken out of both lists.

    A pair counts as found if it is no farther than the last of the exact list: in a corpus that repeats itself
    several pairs are equally far, and any of them will do.

    Args:
        pairs: what is searched, and where the queries are taken from
        count: how many queries
        seed: of their choice
    """

    def __init__(self, pairs: Pairs, count: int, seed: int) -> None:
        self.pairs = pairs
        chosen = np.random.default_rng(seed).choice(len(pairs), min(count, len(pairs)), replace=False)
        ids = pairs.ids(np.sort(chosen))
        self.queries: Floats = pairs.keys(ids)  # [queries, dim]
        self.own: Ids = pairs.sentences(ids)  # [queries]
        self.longest = max(self._sentence_length(pair) for pair in ids.tolist())
        with progress("Searching exactly", total=len(pairs), unit="pairs") as meter:
            found = nearest(self._blocks(meter), self.queries, min(max(RECALL_DEPTHS) + self.longest, len(pairs)))
        self.exact: Floats = np.sort(self.rank(found), axis=1)[:, : max(RECALL_DEPTHS)]  # [queries, depth]

    def _blocks(self, meter: Meter) -> Iterator[tuple[Ids, Floats]]:
        for ids, keys in self.pairs.blocks(BLOCK_NUMBERS // self.pairs.dim):
            yield ids, keys
            meter.advance(len(ids), units=len(ids))

    def _sentence_length(self, pair: int) -> int:
        """Pairs of the sentence that a pair belongs to; they stand together."""
        segment = next(each for each in self.pairs.segments if each.number == pair >> ROW_BITS)
        row = pair & ROW_MASK
        around = segment.sentence[max(0, row - LONGEST_SENTENCE) : row + LONGEST_SENTENCE]
        return int(np.count_nonzero(around == segment.sentence[row]))

    def rank(self, candidates: Ids) -> Floats:
        """Exact distances [queries, m] of an engine's candidates [queries, m] in the engine's order.

        Pairs of the query's own sentence are left out, the rest moves up, +inf fills the end.
        """
        present = np.where(candidates < 0, self.pairs.ids(np.zeros(1, dtype=np.int64)), candidates)
        left_out = (candidates < 0) | (self.pairs.sentences(present) == self.own[:, None])
        order = np.argsort(left_out, axis=1, kind="stable")
        kept = np.take_along_axis(np.where(left_out, -1, candidates), order, axis=1)
        return squared_distances(self.pairs, self.queries, kept)

    def recall(self, ranked: Floats, depth: int, rescore: int) -> float:
        """Recall@depth, if the first rescore · depth of what `rank` gave are looked at."""
        exact = self.exact[:, :depth]
        exists = np.isfinite(exact)
        farthest = np.max(exact, axis=1, initial=0.0, where=exists)  # [queries]
        hits = np.count_nonzero(ranked[:, : rescore * depth] <= farthest[:, None], axis=1)
        return float(np.minimum(hits, exists.sum(axis=1)).sum() / max(1, exists.sum()))
