"""What stands before a neighbour, against loops over sentences."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentences import SENTENCES
from worlds import load, make_store

from knnmt.datastore import Entries, Store
from knnmt.memory.context import (
    LONGEST_PAST,
    continued,
    matching_past,
    past_of_sequences,
    past_of_targets,
    previous_in_targets,
    same_beginning,
)


@pytest.fixture
def store(tmp_path: Path, family_directory: Callable[[str], Path]) -> Store:
    """Two equal long sentences among others."""
    long = ("Haus", " ".join(target for _, target in SENTENCES[:4]))
    return make_store(
        tmp_path / "store",
        load("marian", family_directory("marian")),
        [*SENTENCES[10:20], long, *SENTENCES[20:24], long],
    )


def in_loops(store: Store, ids: np.ndarray, so_far: list[list[int]]) -> list[list[int]]:
    segment = store.segments[0]
    counts: list[list[int]] = []
    for row, tokens in zip(ids.tolist(), so_far, strict=True):
        counts.append([])
        for entry in row:
            if entry < 0:
                counts[-1].append(0)
                continue
            at = entry - (segment.number << 32)
            start = int(np.flatnonzero(segment.sentence == segment.sentence[at])[0])
            before = segment.values[start:at].tolist()
            same = 0
            while same < min(len(before), len(tokens), 16) and before[-1 - same] == tokens[-1 - same]:
                same += 1
            counts[-1].append(same)
    return counts


def aligned(so_far: list[list[int]]) -> np.ndarray:
    width = max(map(len, so_far))
    return np.array([[-1] * (width - len(tokens)) + tokens for tokens in so_far])


def test_matching_tokens_against_loops(store: Store) -> None:
    rng = np.random.default_rng(0)
    segment = store.segments[0]
    starts = np.flatnonzero(segment.position == 0)
    so_far = []
    for _ in range(200):  # the pasts of stored entries, cut, changed and lengthened
        start = int(rng.choice(starts))
        own = segment.values[
            start : start + rng.integers(0, np.count_nonzero(segment.sentence == segment.sentence[start]))
        ]
        tokens = own.tolist()[rng.integers(0, 3) :]
        if tokens and rng.random() < 0.3:
            tokens[rng.integers(0, len(tokens))] = 5
        so_far.append([7] * rng.integers(0, 3) + tokens)
    ids = store.entries.ids(rng.integers(0, store.entry_count, (200, 64)).reshape(-1)).reshape(200, 64)
    for row, tokens in enumerate(so_far):  # and those that continue the same way
        continues = [i for i in range(store.entry_count) if tokens and i and segment.values[i - 1] == tokens[-1]]
        ids[row, : len(continues[:8])] = store.entries.ids(np.array(continues[:8], dtype=np.int64))
    ids[rng.random(ids.shape) < 0.1] = -1
    found = matching_past(store.entries, ids, aligned(so_far))
    assert found.tolist() == in_loops(store, ids, so_far)
    assert len(np.unique(found)) > 8, "they vary"


def test_no_more_than_the_longest_count(store: Store) -> None:
    segment = store.segments[0]
    copies = np.flatnonzero(np.bincount(segment.sentence) > 2 * LONGEST_PAST)
    first, second = (np.flatnonzero(segment.sentence == number) for number in copies)
    ids = store.entries.ids(second)[:, None]
    so_far = [segment.values[first[:position]].tolist() for position in range(len(first))]
    found = matching_past(store.entries, ids, aligned(so_far))[:, 0]
    assert found.tolist() == [min(position, LONGEST_PAST) for position in range(len(first))]
    assert matching_past(store.entries, ids, np.empty((len(first), 0), np.int64)).sum() == 0


def test_entries_that_are_not_searched_count_as_past(store: Store) -> None:
    """A neighbour's past is its sentence, whatever part of the store is searched."""
    segment = store.segments[0]
    masked = Entries(store.segments, {segment.name: segment.position == 3})
    ids = store.entries.ids(np.flatnonzero(segment.position == 3))[:, None]
    rows = np.flatnonzero(segment.position == 3)
    so_far = np.stack([segment.values[rows - back].astype(np.int64) for back in (3, 2, 1)], 1)
    assert (matching_past(masked, ids, so_far) == 3).all()


def test_the_past_of_each_position() -> None:
    targets = [list(range(100, 120)), [7], [8, 9, 10]]
    tokens = torch.tensor([token for target in targets for token in target])
    found = past_of_targets(tokens, np.array([20, 1, 3]))
    expected = [target[:position] for target in targets for position in range(len(target))]
    for row, past in zip(found.tolist(), expected, strict=True):
        kept = past[-LONGEST_PAST:]
        assert row == [-1] * (LONGEST_PAST - len(kept)) + kept
    sequences = torch.tensor([[1, 2, *targets[0]], [1, 2, *range(200, 220)]])
    for first in (1, 5, 21):
        windows = past_of_sequences(sequences, first, prefix=2)
        assert windows.shape == (2, 22 - first, LONGEST_PAST)
        for sequence, of_sequence in zip(sequences.tolist(), windows.tolist(), strict=True):
            for position, row in enumerate(of_sequence, first):
                kept = sequence[2 : position + 1][-LONGEST_PAST:]
                assert row == [-1] * (LONGEST_PAST - len(kept)) + kept


@pytest.mark.parametrize("k", [1, 2, 7, 32])
def test_continued_neighbours_against_loops(store: Store, k: int) -> None:
    rng = np.random.default_rng(k)
    segment = store.segments[0]
    ids = store.entries.ids(rng.integers(0, store.entry_count, 100 * k)).reshape(100, k)
    previous = np.where(rng.random(ids.shape) < 0.5, ids - 1, rng.permutation(ids.ravel()).reshape(ids.shape))
    previous = rng.permuted(previous, axis=1)
    ids[rng.random(ids.shape) < 0.1] = -1
    previous[rng.random(ids.shape) < 0.1] = -1
    previous[:5] = -1
    found = continued(store.entries, ids, previous)
    for row in range(100):
        for column, entry in enumerate(ids[row].tolist()):
            first = entry < 0 or segment.position[entry & 0xFFFFFFFF] == 0
            assert found[row, column] == (not first and entry - 1 in previous[row].tolist())
    assert 0.2 < found.mean() < 0.8


def test_neighbours_of_the_position_before() -> None:
    ids = np.arange(12).reshape(6, 2)
    expected = [[-1, -1], [0, 1], [2, 3], [-1, -1], [-1, -1], [8, 9]]
    assert previous_in_targets(ids, np.array([3, 1, 2])).tolist() == expected


def test_the_same_beginning(store: Store) -> None:
    """All tokens of a row and all before the neighbour: not one more on either side."""
    segment = store.segments[0]
    start = int(np.flatnonzero(segment.position == 0)[3])
    own = segment.values[start : start + 6].tolist()
    ids = store.entries.ids(np.arange(start, start + 6))[None].repeat(4, 0)
    ids[:, 5] = -1
    so_far = aligned([own[:3], [7, *own[:3]], own[1:3], []])
    past = matching_past(store.entries, ids, so_far)
    found = same_beginning(store.entries, ids, so_far, past)
    assert found.tolist() == [
        [False, False, False, True, False, False],
        [False] * 6,
        [False] * 6,
        [True, False, False, False, False, False],
    ]
