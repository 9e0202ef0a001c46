"""How far an index is searched: found at build by trying, cheapest first."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knnmt.datastore import Ids
from knnmt.progress import progress
from knnmt.search.keys import Floats
from knnmt.search.parameters import (
    RECALL_AIM,
    RECALL_DEPTHS,
    RESCORE_COST,
    RESCORES,
    probe_counts,
)
from knnmt.search.recall import RecallTest

CHOSEN_DEPTH = 16  # the depth at which recall has to reach its aim

Look = Callable[[Floats, int, int], Ids]  # queries, candidates wanted, lists to look through → candidates


@dataclass(frozen=True)
class OperatingPoint:
    """Lists to look through, candidates for each neighbour wanted, and the recall@depth they give."""

    probes: int
    rescore: int
    recall: dict[str, float]


def choose(look: Look, lists: int, test: RecallTest) -> OperatingPoint:
    """Probes and rescore that reach the aim at the least cost; where nothing does, as much as there is."""
    list_size = len(test.entries) / lists
    width = max(RESCORES) * max(RECALL_DEPTHS) + test.longest
    least, chosen = np.inf, None
    with progress("Choosing probes", unit="queries") as meter:
        for probes in probe_counts(lists):
            if probes * list_size >= least:
                break
            ranked = test.rank(look(test.queries, width, probes))
            reached = [rescore for rescore in RESCORES if test.recall(ranked, CHOSEN_DEPTH, rescore) >= RECALL_AIM]
            rescore = reached[0] if reached else max(RESCORES)
            cost = probes * list_size + RESCORE_COST * CHOSEN_DEPTH * rescore if reached else np.inf
            if cost <= least:
                least, chosen = cost, OperatingPoint(probes, rescore, recall_at_depths(test, ranked, rescore))
            meter.advance(units=len(test.queries))
    assert chosen is not None
    return chosen


def recall_at_depths(test: RecallTest, ranked: Floats, rescore: int) -> dict[str, float]:
    """Recall at every depth that is reported."""
    return {str(depth): round(test.recall(ranked, depth, rescore), 4) for depth in RECALL_DEPTHS}
