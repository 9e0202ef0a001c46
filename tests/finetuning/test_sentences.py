"""Which sentences are used, and in which batches."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from sentences import SENTENCES
from worlds import load

from knnmt.corpus import Pair
from knnmt.errors import FinetuneError
from knnmt.finetuning.sentences import Sentences, TokenRows

random = np.random.default_rng(3)
LENGTHS = random.integers(1, 30, (2, 200))
SOURCES, TARGETS = (TokenRows([np.arange(length, dtype=np.int32) for length in side]) for side in LENGTHS)
SYNTHETIC = Sentences(SOURCES, TARGETS)
PAIRS = [Pair(source, target, "sentences", 1) for source, target in SENTENCES]


def test_rows() -> None:
    rows = TokenRows([np.array(row, np.int32) for row in ([1, 2], [], [3])])
    assert [*rows] == rows[:] == [[1, 2], [], [3]]
    assert rows[1:] == [[], [3]]
    assert [*rows.take(np.array([2, 0]))] == [[3], [1, 2]]


def test_an_epoch_has_each_sentence_once() -> None:
    batches = SYNTHETIC.epoch(0, seed=1, budget=100)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    for batch in batches:
        assert len(batch) * LENGTHS[:, batch].max(axis=1).sum() <= 100


def test_order_follows_from_seed_and_epoch() -> None:
    def order(number: int, seed: int) -> list[list[int]]:
        return [batch.tolist() for batch in SYNTHETIC.epoch(number, seed, 100)]

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(1, 1) != order(1, 2)
    assert {tuple(sorted(batch)) for batch in order(0, 1)} != {tuple(sorted(batch)) for batch in order(1, 1)}


def test_batches_go_on_from_any_place() -> None:
    every = list(islice(SYNTHETIC.batches(1, 100), 200))
    assert every[-1][0] > 1
    for number in (0, 5, len(SYNTHETIC.epoch(0, 1, 100)) - 1, 100):
        epoch, position, _ = every[number]
        rest = islice(SYNTHETIC.batches(1, 100, epoch, position), 20)
        for (*place, batch), (*expected, other) in zip(rest, every[number + 1 : number + 21], strict=True):
            assert place == expected
            assert batch.tolist() == other.tolist()


def test_sample() -> None:
    part = SYNTHETIC.sample(300)
    assert 300 - 30 < part.targets.lengths.sum() <= 300
    assert part.digest == SYNTHETIC.sample(300).digest
    assert len(SYNTHETIC.sample(1)) >= 1
    whole = SYNTHETIC.sample(10**6)
    assert sorted(whole.targets.lengths) == sorted(SYNTHETIC.targets.lengths)
    pairs = {(len(source), len(target)) for source, target in zip(part.sources, part.targets, strict=True)}
    assert pairs <= {(source, target) for source, target in LENGTHS.T}


def test_long_sentences_are_left_out(family_directory: Callable[[str], Path]) -> None:
    codec = load("marian", family_directory("marian")).codec
    long = Pair("Hund " * 300, "dog", "sentences", 1)
    found = Sentences.encode([PAIRS[0], long, PAIRS[1]], codec, "train")
    assert (len(found), found.too_long) == (2, 1)
    assert found.sources[:] == codec.encode_sources([pair.source for pair in PAIRS[:2]])
    assert found.targets[:] == codec.encode_targets([pair.target for pair in PAIRS[:2]])
    with pytest.raises(FinetuneError, match="no dev sentence pairs: all 1 are longer"):
        Sentences.encode([long], codec, "dev")
    with pytest.raises(FinetuneError, match="no train sentence pairs: give some"):
        Sentences.encode([], codec, "train")
