"""An index is bound to its segments by their names and checksums."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.datastore import Entries, IndexRecord, Store
from knnmt.datastore.index_record import covered_segments, read_index_record


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    """Two segments."""
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    return scenario.build(tmp_path / "s", "second", scenario.SECOND)  # type: ignore[no-any-return]


def test_a_segments_checksum_is_of_its_content(scenario: ModuleType, store: Store, tmp_path: Path) -> None:
    first, second = (segment.record.checksum for segment in store.segments)
    assert first != second
    assert scenario.build(tmp_path / "t", "other key", scenario.FIRST).segments[0].record.checksum == first


def test_names_and_checksums(store: Store) -> None:
    entries = store.entries
    first, second = entries.checksums
    for segments, fits in (
        (dict(entries.checksums), True),
        ({first: entries.checksums[first]}, True),
        ({first: None, second: None}, True),
        ({}, True),
        ({first: entries.checksums[second]}, False),
        ({"000009": None}, False),
        ({"000009": entries.checksums[first]}, False),
    ):
        assert IndexRecord(segments=segments).is_of(entries) == fits, segments  # type: ignore[arg-type]


def test_rows_that_are_left_out_are_part_of_it(store: Store) -> None:
    """An index over all rows would find those that a mask leaves out."""
    first = store.segments[0]
    some, others = (np.arange(len(first)) % 3 == rest for rest in (0, 1))
    masked = Entries(store.segments, {first.name: some})
    for entries, fits in (
        (masked, True),
        (Entries(store.segments, {first.name: some.copy()}), True),
        (store.entries, False),
        (Entries(store.segments, {first.name: others}), False),
    ):
        assert IndexRecord(segments=dict(entries.checksums)).is_of(masked) == fits
    assert not IndexRecord(segments={first.name: None}).is_of(masked), "a name alone says nothing of rows"
    assert Entries(store.segments, {first.name: some | True}).checksums == store.entries.checksums


@pytest.mark.parametrize("value", [5, None, [1], {"000001": 3}, [["000001"]]])
def test_what_is_not_a_list_of_segments(value: Any) -> None:
    with pytest.raises(TypeError):
        covered_segments(value)


def test_an_index_of_other_content_covers_nothing(store: Store) -> None:
    """So that it is built again."""
    assert store.index_config is not None
    assert store.covered_segments() == {"000001"}
    (store.index_config.directory / "config.json").write_text('{"segments": {"000001": "of something else"}}')
    other = Store.open(store.path)
    assert other.index_config is not None
    assert read_index_record(other.index_config) == IndexRecord(segments={"000001": "of something else"})
    assert other.covered_segments() == frozenset()
