import numpy as np
import pytest

from knnmt.datastore import Entries
from knnmt.search.operating_point import choose
from knnmt.search.recall import RecallTest


@pytest.fixture
def test(small_store):
    return RecallTest(Entries(small_store.segments), 40, seed=1)


@pytest.fixture
def truth(small_store, toolbox, test):
    """Ids [queries, 300] outside the query's own sentence, nearest first."""
    sentence = Entries(small_store.segments).sentence(small_store.column("ids"))
    own = dict(zip(small_store.column("ids").tolist(), sentence.tolist(), strict=True))
    return toolbox.naive(small_store, test.queries, 300, lambda row, pair: own[pair] == test.own[row])[0]


def look_through(truth, needed, hidden):
    """An index that finds the nearest from `needed` probes on, behind `hidden` pairs that are far away."""

    def look(queries, count, probes):
        near = truth[:, 0 if probes >= needed else 30 : 200]
        return np.concatenate([truth[:, 250 : 250 + hidden], near], axis=1)[:, :count]

    return look


@pytest.mark.parametrize(("needed", "hidden", "rescore"), [(1, 0, 2), (4, 0, 2), (6, 20, 3), (3, 40, 4)])
def test_as_few_probes_and_candidates_as_reach_the_aim(test, truth, needed, hidden, rescore):
    point = choose(look_through(truth, needed, hidden), 16, test)
    assert (point.probes, point.rescore) == (needed, rescore)
    assert point.recall["16"] == 1


def test_candidates_are_paid_for_with_probes_where_that_is_cheaper(test, truth):
    """From eight probes on two candidates for one do; with four it takes sixteen, which costs more than four lists."""

    def look(queries, count, probes):
        return look_through(truth, 4, 0 if probes >= 8 else 45)(queries, count, probes)

    assert (choose(look, 16, test).probes, choose(look, 16, test).rescore) == (8, 2)


def test_everything_is_looked_through_where_nothing_reaches_the_aim(test, truth):
    point = choose(look_through(truth, 1000, 0), 16, test)
    assert (point.probes, point.rescore) == (16, 16)
    assert point.recall["16"] < 0.95
