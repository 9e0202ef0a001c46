"""Entries against loops over the rows of the segments, with and without a mask."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.datastore import Entries, Segment, Store, writer


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two segments."""
    monkeypatch.setattr(writer, "TAIL_ENTRIES", 0)
    scenario.build(tmp_path / "s", "first", scenario.FIRST)
    built: Store = scenario.second_build(tmp_path / "s")
    assert len(built.segments) == 2
    return built


def rows(store: Store) -> list[tuple[int, Segment, int]]:
    """Id, segment and row of every entry."""
    return [((each.number << 32) + row, each, row) for each in store.segments for row in range(len(each))]


def test_columns(store: Store) -> None:
    entries = store.entries
    ids = np.array([number for number, _, _ in rows(store)])
    assert len(entries) == len(ids) == store.entry_count
    assert (entries.ids(np.arange(len(ids))) == ids).all()
    order = np.random.default_rng(0).permutation(len(ids))
    for position, found in zip(order, entries.before(ids[order]), strict=True):
        number, segment, row = rows(store)[position]
        one = np.array([number])
        assert (entries.keys(one)[0] == segment.keys[row]).all()
        assert entries.values(one)[0] == segment.values[row]
        assert entries.log_confidence(one)[0] == segment.confidence[row]
        assert entries.position(one)[0] == segment.position[row]
        assert entries.sentence(one)[0] == (segment.number << 32) + int(segment.sentence[row])
        assert entries.sentence_lengths(one)[0] == np.count_nonzero(segment.sentence == segment.sentence[row])
        assert found == (number - 1 if segment.position[row] else -1)


def test_no_entry(store: Store) -> None:
    none = np.array([[-1, store.segments[1].number << 32]])
    entries = store.entries
    assert entries.values(none)[0, 0] == entries.sentence(none)[0, 0] == entries.before(none)[0, 0] == -1
    assert not entries.keys(none)[0, 0].any()
    assert entries.keys(none).shape == (1, 2, store.dim)
    for alone in (entries, Entries(store.segments[:1])):
        for unknown in (99 << 32, (store.segments[0].number << 32) + 10_000):
            with pytest.raises(IndexError):
                alone.values(np.array([unknown]))


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_mask_leaves_out_rows(store: Store, size: int) -> None:
    random = np.random.default_rng(1)
    masked = store.segments[1]
    mask = {masked.name: random.random(len(masked)) < 0.5}
    entries = Entries(store.segments, mask)
    kept = np.array([number for number, each, row in rows(store) if each is not masked or mask[each.name][row]])
    assert len(entries) == len(kept) < store.entry_count
    assert (entries.ids(np.arange(len(kept))) == kept).all()
    blocks = list(entries.blocks(size))
    assert max(len(ids) for ids, _ in blocks) <= size
    assert (np.concatenate([ids for ids, _ in blocks]) == kept).all()
    assert (np.concatenate([keys for _, keys in blocks]) == store.entries.keys(kept)).all()


def test_the_fingerprint_includes_the_mask(store: Store) -> None:
    first = store.segments[0]
    all_rows, one_less = np.ones(len(first), np.bool_), np.ones(len(first), np.bool_)
    one_less[3] = False
    prints = [Entries(store.segments, mask).fingerprint for mask in (None, {first.name: one_less})]
    assert len(set(prints)) == 2
    assert prints[0] == store.fingerprint == Entries(store.segments).fingerprint
    assert Entries(store.segments, {first.name: all_rows}).fingerprint != prints[1]


def test_without_some_ids(store: Store) -> None:
    first, second = store.segments
    masked = Entries(store.segments, {first.name: np.arange(len(first)) != 1})
    gone = [0, 1, 4, -1]  # row 1 is left out already
    entries = masked.without(np.array([each if each < 0 else (first.number << 32) + each for each in gone]))
    assert [row for row in range(len(first)) if not entries.mask[first.name][row]] == [0, 1, 4]
    assert set(entries.mask) == {first.name}
    assert len(entries) == len(store.entries) - 3
    assert masked.mask[first.name].sum() == len(first) - 1, "the others are as they were"
    alone = store.entries.without((second.number << 32) + np.arange(len(second)))
    assert not alone.mask[second.name].any()
    assert (alone.ids(np.arange(len(first))) == (first.number << 32) + np.arange(len(first))).all()
    assert len(alone) == len(first)
    for unknown in (99 << 32, (first.number << 32) + len(first)):
        with pytest.raises(IndexError):
            masked.without(np.array([unknown]))


def test_sentences_that_have_an_entry(store: Store) -> None:
    random = np.random.default_rng(2)
    first = store.segments[0]
    entries = Entries(store.segments, {first.name: random.random(len(first)) < 0.2})
    live = [sentence for row, sentence in enumerate(first.sentence.tolist()) if entries.mask[first.name][row]]
    assert 0 < len(set(live)) < first.record.sentences
    assert np.flatnonzero(entries.sentence_mask[first.name]).tolist() == sorted(set(live))
    assert set(entries.sentence_mask) == {first.name}
    ends = {each.name: np.diff(each.sentence, append=-1).astype(bool) for each in store.segments}  # one row for each
    assert not Entries(store.segments, ends).sentence_mask, "with a row of each, all count"


def test_a_mask_of_another_length(store: Store) -> None:
    for rows in (3, 0, 10_000):
        with pytest.raises(ValueError, match="one bool for each row"):
            Entries(store.segments, {store.segments[0].name: np.ones(rows, np.bool_)})
    assert not Entries(store.segments, {"000099": np.zeros(3, np.bool_)}).mask, "of a segment that is not one of these"
