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
