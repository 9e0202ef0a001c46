"""Sentences by number against loops over the segments, whose own numbers have gaps."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.corpus import Pair, pair_hash, text_hash
from knnmt.datastore import Store, StoredSentences, writer

SEEDS = (1, 2, 3)


@pytest.fixture(params=["one segment", "several segments"])
def store(
    request: pytest.FixtureRequest, scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Store:
    blocks = [scenario.make_block(seed, sentences=4 + seed) for seed in SEEDS]
    if request.param == "one segment":
        one: Store = scenario.build(tmp_path / "store", "all", blocks)
        return one
    first = scenario.build(tmp_path / "store", "0", blocks[:1])
    scenario.build(tmp_path / "store", "1", blocks[1:2])  # takes the first in, so there is no segment 1
    monkeypatch.setattr(writer, "TAIL_ENTRIES", first.entry_count)
    scenario.build(tmp_path / "store", "2", blocks[2:])
    scenario.build(tmp_path / "store", "3", [scenario.make_block(9)])
    store = Store.open(tmp_path / "store")
    assert [segment.number for segment in store.segments] == [2, 3, 4]
    return store


def rows(store: Store) -> list[tuple[int, int, int]]:
    """Number of the sentence, id and position of every entry, one after the other."""
    found: list[tuple[int, int, int]] = []
    before = 0
    for segment in store.segments:
        ids = range(segment.number * 2**32, segment.number * 2**32 + len(segment))
        sentences = [before + number for number in segment.sentence.tolist()]
        found += zip(sentences, ids, segment.position.tolist(), strict=True)
        before += len(segment.sentence_table)
    return found


def test_the_sentence_of_an_entry(store: Store) -> None:
    stored = StoredSentences(store)
    known = {entry: number for number, entry, _ in rows(store)} | {-1: -1}
    assert len(stored) == store.sentence_count == max(known.values()) + 1
    ids = np.random.default_rng(0).permutation(list(known))[: len(known) // 2 * 2].reshape(2, -1)
    ids[0, 0] = -1
    assert stored.of(ids).tolist() == [[known[entry] for entry in row] for row in ids.tolist()]
    assert stored.of(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)


def test_the_entries_of_sentences(store: Store) -> None:
    numbers = np.random.default_rng(1).permutation(store.sentence_count)[:-2]
    expected = [[entry for number, entry, _ in rows(store) if number == wanted] for wanted in numbers.tolist()]
    ids, lengths = StoredSentences(store).ids(numbers)
    assert lengths.tolist() == [len(each) for each in expected]
    assert ids.tolist() == [entry for each in expected for entry in each]
    assert [each.position for each in store.provenance(ids)] == [n for length in lengths for n in range(length)]
    assert [ids.dtype, lengths.dtype] == [np.int64, np.int64]


def test_texts_and_hashes(store: Store) -> None:
    stored = StoredSentences(store)
    table = [row for segment in store.segments for row in segment.sentence_table.to_pylist()]
    every = [Pair(row["source"], row["target"], row["origin"], row["line"]) for row in table]
    assert len(set(every)) == store.sentence_count
    numbers = np.random.default_rng(2).permutation(store.sentence_count)
    assert stored.pairs(numbers) == [every[number] for number in numbers]
    assert stored.hashes("source").tolist() == [text_hash(pair.source) for pair in every]
    assert stored.hashes("target").tolist() == [text_hash(pair.target) for pair in every]
    assert stored.hashes("pair").tolist() == [pair_hash(pair.source, pair.target) for pair in every]
    assert stored.hashes("source").dtype == np.uint64
