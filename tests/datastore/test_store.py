"""Reading, against naive loops over what was written."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.corpus import pair_hash, text_hash
from knnmt.datastore import Provenance, Store


def expected_rows(blocks: list[Any], number: int) -> dict[int, tuple[Any, int, float, Provenance]]:
    """id → key, value, confidence, provenance, one entry at a time."""
    rows: dict[int, tuple[Any, int, float, Provenance]] = {}
    sentence = 0
    for block in blocks:
        token = 0
        for pair, length in zip(block.pairs, block.lengths, strict=True):
            for position in range(length):
                source = Provenance(
                    pair.source, pair.target, pair.origin, pair.line, position, number * 2**32 + sentence
                )
                rows[number * 2**32 + len(rows)] = (
                    block.keys[token],
                    int(block.values[token]),
                    float(block.confidence[token]),
                    source,
                )
                token += 1
            sentence += 1
    return rows


def assert_holds(store: Store, expected: dict[int, tuple[Any, int, float, Provenance]]) -> None:
    assert store.entry_count == len(expected)
    ids = np.array(list(expected), dtype=np.int64)
    np.random.default_rng(0).shuffle(ids)
    keys, values, confidence = store.entries.keys(ids), store.entries.values(ids), store.entries.log_confidence(ids)
    assert [keys.dtype, values.dtype, confidence.dtype] == [np.float16, np.int32, np.float32]
    for row, (entry, provenance) in enumerate(zip(ids.tolist(), store.provenance(ids), strict=True)):
        key, value, log_p, source = expected[entry]
        assert keys[row].tolist() == key.tolist()
        assert values[row] == value
        assert confidence[row] == log_p
        assert provenance == source


@pytest.fixture
def two_segments(scenario: ModuleType, tmp_path: Path) -> tuple[Store, dict[int, Any]]:
    """The index covers the first segment, so the second stands beside it."""
    scenario.build(tmp_path / "two", "first", scenario.FIRST, index=True)
    store = scenario.build(tmp_path / "two", "second", scenario.SECOND)
    return store, expected_rows(scenario.FIRST, 1) | expected_rows(scenario.SECOND, 2)


def test_one_segment(scenario: ModuleType, tmp_path: Path) -> None:
    store = scenario.build(tmp_path / "one", "first", scenario.FIRST)
    assert [segment.name for segment in store.segments] == ["000001"]
    assert (store.sentence_count, store.dim, store.model) == (14, scenario.DIM, scenario.MODEL)
    assert_holds(Store.open(tmp_path / "one"), expected_rows(scenario.FIRST, 1))


def test_two_segments(two_segments: tuple[Store, dict[int, Any]]) -> None:
    store, expected = two_segments
    assert [segment.name for segment in store.segments] == ["000001", "000002"]
    assert_holds(store, expected)


@pytest.mark.parametrize("segments", [1, 2])
def test_ids_of_any_shape_and_missing_ones(
    scenario: ModuleType, tmp_path: Path, two_segments: tuple[Store, dict[int, Any]], segments: int
) -> None:
    store, expected = two_segments
    if segments == 1:
        store = scenario.build(tmp_path / "one", "first", scenario.FIRST)
        expected = expected_rows(scenario.FIRST, 1)
    ids = np.random.default_rng(1).choice(list(expected), size=(4, 3, 2))
    ids[0, 0, 0] = ids[3, 2, 1] = ids[1, 1, 0] = -1
    before = ids.copy()
    keys, values, confidence = store.entries.keys(ids), store.entries.values(ids), store.entries.log_confidence(ids)
    assert (ids == before).all()
    assert keys.shape == (4, 3, 2, scenario.DIM)
    assert values.shape == confidence.shape == (4, 3, 2)
    for index in np.ndindex(4, 3, 2):
        entry = int(ids[index])
        key, value, log_p = expected[entry][:3] if entry >= 0 else (np.zeros(scenario.DIM), -1, 0.0)
        assert keys[index].tolist() == key.tolist()
        assert values[index] == value
        assert confidence[index] == log_p
    assert store.entries.keys(np.empty((0, 3), np.int64)).shape == (0, 3, scenario.DIM)
    assert (store.entries.values(np.full((2, 2), -1)) == -1).all()


@pytest.mark.parametrize("segments", [1, 2])
def test_unknown_ids(
    scenario: ModuleType, tmp_path: Path, two_segments: tuple[Store, dict[int, Any]], segments: int
) -> None:
    store = two_segments[0] if segments == 2 else scenario.build(tmp_path / "one", "first", scenario.FIRST)
    beyond = (1 << 32) + len(store.segments[0])
    for entry in (0, 5, beyond, (1 << 32) - 1, 3 << 32):
        with pytest.raises(IndexError):
            store.entries.values(np.array([1 << 32, entry]))
        with pytest.raises(IndexError):
            store.provenance(np.array([1 << 32, entry]))


def test_rows_of_a_sentence_are_contiguous_and_ascend(two_segments: tuple[Store, dict[int, Any]]) -> None:
    for segment in two_segments[0].segments:
        previous = (-1, 0)
        for sentence, position in zip(segment.sentence.tolist(), segment.position.tolist(), strict=True):
            assert (sentence, position) in {(previous[0], previous[1] + 1), (previous[0] + 1, 0)}
            previous = (sentence, position)
        assert previous[0] + 1 == len(segment.sentence_table)


def test_contains(scenario: ModuleType, two_segments: tuple[Store, dict[int, Any]]) -> None:
    store, _ = two_segments
    pairs = [pair for block in scenario.FIRST + scenario.SECOND for pair in block.pairs]
    mixed = [*pairs[::3], *(p.__class__("fremd " + p.source, p.target, "", 1) for p in pairs[::4])]
    stored = {(pair.source, pair.target) for pair in pairs}
    found = store.contains(np.array([pair_hash(p.source, p.target) for p in mixed], dtype=np.uint64))
    assert found.tolist() == [(p.source, p.target) in stored for p in mixed]
    found = store.contains(np.array([text_hash(p.source.upper()) for p in mixed], dtype=np.uint64), "source")
    assert found.tolist() == [p.source in {s for s, _ in stored} for p in mixed]
    found = store.contains(np.array([text_hash(p.target) for p in mixed], dtype=np.uint64), which="target")
    assert found.all()
    assert store.contains(np.array([], dtype=np.uint64)).tolist() == []


def test_sizes_are_those_on_disk(two_segments: tuple[Store, dict[int, Any]]) -> None:
    store, _ = two_segments
    sizes = store.sizes()
    assert sizes["keys"] == sum(p.stat().st_size for p in store.path.rglob("keys.npy"))
    on_disk = [p for p in store.path.rglob("*") if p.is_file() and p.name not in {"manifest.json", "lock"}]
    assert sum(sizes.values()) == sum(p.stat().st_size for p in on_disk)
    assert sizes["index"] > 0


def test_the_fingerprint_is_of_the_content(scenario: ModuleType, tmp_path: Path) -> None:
    first = scenario.build(tmp_path / "a", "first", scenario.FIRST)
    assert first.fingerprint == scenario.build(tmp_path / "b", "other key", scenario.FIRST).fingerprint
    assert first.fingerprint != scenario.build(tmp_path / "c", "first", scenario.SECOND).fingerprint
    assert first.fingerprint != scenario.build(tmp_path / "a", "second", scenario.SECOND).fingerprint


def test_a_store_that_is_open_outlives_a_commit_and_a_sweep(scenario: ModuleType, tmp_path: Path) -> None:
    before = scenario.build(tmp_path / "a", "first", scenario.FIRST)
    expected = expected_rows(scenario.FIRST, 1)
    scenario.build(tmp_path / "a", "second", scenario.SECOND)
    scenario.build(tmp_path / "a", "third", scenario.FIRST)
    assert not (tmp_path / "a/segments/000001").exists()
    assert_holds(before, expected)
    assert Store.open(tmp_path / "a").entry_count > before.entry_count
