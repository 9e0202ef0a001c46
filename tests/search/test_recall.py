import numpy as np
import numpy.typing as npt
import pytest
from memory_store import MemorySegment, MemoryStore, Queries, clustered, naive
from tolerances import SUM_OF_SQUARES

from knnmt.datastore import Entries, Ids
from knnmt.search.recall import ProbeLists, RecallTest, choose

Truth = tuple[Ids, npt.NDArray[np.float64]]


@pytest.fixture
def test(small_store: MemoryStore) -> RecallTest:
    return RecallTest(Entries(small_store.segments), 50, seed=1)


@pytest.fixture
def truth(small_store: MemoryStore, test: RecallTest) -> Truth:
    """Ids and distances [queries, 300] of everything outside the query's sentence, nearest first, by sorting."""
    entries = Entries(small_store.segments)
    sentence = dict(zip(small_store.column("ids").tolist(), entries.sentence(small_store.column("ids")), strict=True))
    return naive(small_store, test.queries, 300, lambda row, entry: sentence[entry] == test.own[row])


def test_queries_are_stored_keys_chosen_by_seed(small_store: MemoryStore, test: RecallTest) -> None:
    stored = {key.tobytes() for key in small_store.column("keys").astype(np.float32)}
    assert len({query.tobytes() for query in test.queries}) == 50
    assert all(query.tobytes() in stored for query in test.queries)
    again = RecallTest(Entries(small_store.segments), 50, seed=1)
    other = RecallTest(Entries(small_store.segments), 50, seed=2)
    assert (again.queries == test.queries).all()
    assert (other.queries != test.queries).any()


def test_exact_list_has_no_entry_of_the_own_sentence(test: RecallTest, truth: Truth) -> None:
    np.testing.assert_allclose(test.exact, truth[1][:, :32], rtol=SUM_OF_SQUARES)
    assert test.exact[:, 0].min() > 0  # the query itself is in its own sentence


def test_recall_is_the_share_that_was_found(small_store: MemoryStore, test: RecallTest, truth: Truth) -> None:
    ids = truth[0]
    half = ids[:, [0, 1, 2, 3, *range(100, 160)]]  # four of the nearest eight, and sixty far ones
    ranked = test.rank(half)
    assert test.recall(ranked, 8, 1) == pytest.approx(0.5)
    assert test.recall(ranked, 16, 2) == pytest.approx(0.25)
    assert test.recall(test.rank(ids[:, :64]), 32, 1) == 1
    late = test.rank(ids[:, [*range(100, 108), *range(8)]])  # the nearest come behind as many others
    assert test.recall(late, 8, 1) == 0
    assert test.recall(late, 8, 2) == 1


def test_own_sentence_does_not_take_room_among_the_candidates(
    small_store: MemoryStore, test: RecallTest, truth: Truth
) -> None:
    everything = naive(small_store, test.queries, 300)[0]
    ranked = test.rank(everything)
    np.testing.assert_allclose(ranked, truth[1], rtol=SUM_OF_SQUARES)
    assert test.recall(ranked, 16, 1) == 1


def test_equally_far_entries_count_alike() -> None:
    """A corpus of 40 copies of the same sentence: whichever eight are found, all is found."""
    keys = np.tile(clustered(np.random.default_rng(0), 7, 8, centres=2), (40, 1))
    entries = Entries([MemorySegment(1, keys)])
    test = RecallTest(entries, 20, seed=1)
    same = np.array([np.flatnonzero((keys == query.astype(np.float16)).all(1)) for query in test.queries])  # [20, 40]
    assert test.recall(test.rank((1 << 32) + same[:, ::-1][:, :20]), 8, 2) == 1


def finding(truth: Ids, needed: int, hidden: int) -> ProbeLists:
    """An index that finds the nearest from `needed` probes on, behind `hidden` entries that are far away."""

    def probe(queries: Queries, count: int, probes: int) -> Ids:
        near = truth[:, 0 if probes >= needed else 30 : 200]
        return np.concatenate([truth[:, 250 : 250 + hidden], near], axis=1)[:, :count]

    return probe


@pytest.mark.parametrize(("needed", "hidden", "rescore"), [(1, 0, 2), (4, 0, 2), (6, 20, 3), (3, 40, 4)])
def test_as_few_probes_and_candidates_as_reach_the_aim(
    test: RecallTest, truth: Truth, needed: int, hidden: int, rescore: int
) -> None:
    point = choose(finding(truth[0], needed, hidden), 16, test)
    assert (point.probes, point.rescore) == (needed, rescore)
    assert point.recall["16"] == 1


def test_candidates_are_paid_for_with_probes_where_that_is_cheaper(test: RecallTest, truth: Truth) -> None:
    """From eight probes on two candidates for one do; with four it takes sixteen, which costs more than four lists."""

    def probe(queries: Queries, count: int, probes: int) -> Ids:
        return finding(truth[0], 4, 0 if probes >= 8 else 45)(queries, count, probes)

    assert (choose(probe, 16, test).probes, choose(probe, 16, test).rescore) == (8, 2)


def test_everything_is_looked_through_where_nothing_reaches_the_aim(test: RecallTest, truth: Truth) -> None:
    point = choose(finding(truth[0], 1000, 0), 16, test)
    assert (point.probes, point.rescore) == (16, 16)
    assert point.recall["16"] < 0.95
