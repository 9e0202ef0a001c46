"""Sentences by number against loops over the segments, whose own numbers have gaps, and over those of a view."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.corpus import Pair, pair_hash, text_hash
from knnmt.datastore import Entries, Store, StoredSentences, StoreWriter, writer

SEEDS = (1, 2, 3)


@pytest.fixture(params=["one segment", "several segments", "a view of one", "a view of several"])
def store(
    request: pytest.FixtureRequest, scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Store:
    store = make_store("several" in request.param, scenario, tmp_path, monkeypatch)
    return view_of(store) if "view" in request.param else store


def view_of(store: Store) -> Store:
    """Without every third sentence, and without single entries of the others; of the second segment nothing is left."""
    mask = {each.name: (each.sentence % 3 > 0) & (np.arange(len(each)) % 4 > 0) for each in store.segments}
    if len(store.segments) > 1:
        mask[store.segments[1].name][:] = False
    with StoreWriter(store.path, store.model) as changing:
        return changing.commit_view("some", Entries(store.segments, mask)).view("some")


def make_store(several: bool, scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    blocks = [scenario.make_block(seed, sentences=4 + seed) for seed in SEEDS]
    if not several:
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


def live_sentences(store: Store) -> list[tuple[str, int]]:
    """Segment and row of the sentences that have a live entry, in order."""
    found: dict[tuple[str, int], None] = {}
    for segment in store.segments:
        mask = store.entries.mask.get(segment.name, np.ones(len(segment), np.bool_))
        for row, sentence in enumerate(segment.sentence.tolist()):
            if mask[row]:
                found[segment.name, sentence] = None
    return list(found)


def rows(store: Store) -> list[tuple[int, int]]:
    """Number of the sentence (−1 if it has no live entry) and id of every entry, one after the other."""
    numbers = {sentence: number for number, sentence in enumerate(live_sentences(store))}
    return [
        (numbers.get((segment.name, sentence), -1), segment.number * 2**32 + row)
        for segment in store.segments
        for row, sentence in enumerate(segment.sentence.tolist())
    ]


def test_the_sentence_of_an_entry(store: Store) -> None:
    stored = StoredSentences(store)
    known = {entry: number for number, entry in rows(store)} | {-1: -1}
    assert len(stored) == store.sentence_count == max(known.values()) + 1 == len(live_sentences(store))
    ids = np.random.default_rng(0).permutation(list(known))[: len(known) // 2 * 2].reshape(2, -1)
    ids[0, 0] = -1
    assert stored.of(ids).tolist() == [[known[entry] for entry in row] for row in ids.tolist()]
    assert stored.of(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)


def test_the_entries_of_sentences(store: Store) -> None:
    """All of them, also those that the view leaves out."""
    numbers = np.random.default_rng(1).permutation(store.sentence_count)[:-2]
    expected = [[entry for number, entry in rows(store) if number == wanted] for wanted in numbers.tolist()]
    ids, lengths = StoredSentences(store).ids(numbers)
    assert lengths.tolist() == [len(each) for each in expected]
    assert ids.tolist() == [entry for each in expected for entry in each]
    assert [each.position for each in store.provenance(ids)] == [n for length in lengths for n in range(length)]
    assert [ids.dtype, lengths.dtype] == [np.int64, np.int64]


def test_texts_and_hashes(store: Store) -> None:
    stored = StoredSentences(store)
    live = set(live_sentences(store))
    table = [
        row
        for segment in store.segments
        for number, row in enumerate(segment.sentence_table.to_pylist())
        if (segment.name, number) in live
    ]
    every = [Pair(row["source"], row["target"], row["origin"], row["line"]) for row in table]
    assert len(set(every)) == store.sentence_count
    numbers = np.random.default_rng(2).permutation(store.sentence_count)
    assert stored.pairs(numbers) == [every[number] for number in numbers]
    assert stored.hashes("source").tolist() == [text_hash(pair.source) for pair in every]
    assert stored.hashes("target").tolist() == [text_hash(pair.target) for pair in every]
    assert stored.hashes("pair").tolist() == [pair_hash(pair.source, pair.target) for pair in every]
    assert stored.hashes("source").dtype == np.uint64


def test_what_a_store_contains(store: Store) -> None:
    live = set(live_sentences(store))
    for segment in store.segments:
        for which in ("source", "target", "pair"):
            hashes = segment.sentence_table[f"{which}_hash"].to_numpy()
            found = [(segment.name, number) in live for number in range(len(hashes))]
            assert store.contains(hashes, which).tolist() == found


def test_a_text_that_is_there_twice(scenario: ModuleType, tmp_path: Path) -> None:
    """A view that leaves out one of the two still has the text."""
    block = scenario.make_block(1)
    store = scenario.build(tmp_path / "twice", "all", [block, block])
    (segment,) = store.segments
    with StoreWriter(store.path, store.model) as changing:
        once = Entries(store.segments, {segment.name: segment.sentence >= len(block.pairs)})
        view = changing.commit_view("once", once).view("once")
    hashes = segment.sentence_table["pair_hash"].to_numpy()
    assert view.contains(hashes).all()
    assert view.sentence_count == len(block.pairs) == store.sentence_count / 2
    assert StoredSentences(view).hashes("pair").tolist() == hashes[len(block.pairs) :].tolist()


def test_a_store_without_a_mask_reads_no_column(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Store.open(store.path)
    for segment in whole.segments:
        monkeypatch.delattr(segment, "sentence")
    assert len(StoredSentences(whole)) == whole.sentence_count >= store.sentence_count
    assert whole.contains(StoredSentences(whole).hashes("pair")).all()
