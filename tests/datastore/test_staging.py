"""A segment in the making: blocks, what is refused, and what a kill leaves."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.datastore import StagedSegment, npy
from knnmt.datastore.segment import FILES, problems
from knnmt.errors import StoreError


def append(staged: StagedSegment, block: Any, **changes: Any) -> None:
    columns = {
        "keys": block.keys,
        "values": block.values,
        "confidence": block.confidence,
        "lengths": block.lengths,
        "pairs": block.pairs,
        "state": {"skipped": staged.blocks},
    }
    staged.append(**(columns | changes))


@pytest.fixture
def staged(scenario: ModuleType, tmp_path: Path) -> StagedSegment:
    """Two blocks of the second corpus."""
    staged = StagedSegment(tmp_path / "store" / "staging" / "key", scenario.DIM)
    for block in scenario.SECOND[:2]:
        append(staged, block)
    return staged


def reopened(staged: StagedSegment, scenario: ModuleType) -> StagedSegment:
    return StagedSegment(staged.directory, scenario.DIM)


def contents(staged: StagedSegment, scenario: ModuleType) -> dict[str, bytes]:
    """The final files once the rest of the corpus has been added."""
    for block in scenario.SECOND[staged.blocks :]:
        append(staged, block)
    segment = staged.finish("000001")
    return {name: (segment.path / name).read_bytes() for name in FILES}


@pytest.fixture
def undisturbed(scenario: ModuleType, tmp_path: Path) -> dict[str, bytes]:
    return contents(StagedSegment(tmp_path / "undisturbed" / "staging" / "key", scenario.DIM), scenario)


def test_nothing_is_on_disk_before_the_first_block(scenario: ModuleType, tmp_path: Path) -> None:
    staged = StagedSegment(tmp_path / "staging" / "key", scenario.DIM)
    assert (staged.blocks, staged.rows, staged.sentences, staged.state) == (0, 0, 0, {})
    assert list(tmp_path.iterdir()) == []


def test_it_is_taken_up_again(scenario: ModuleType, staged: StagedSegment, undisturbed: dict[str, bytes]) -> None:
    again = reopened(staged, scenario)
    rows = sum(len(block.values) for block in scenario.SECOND[:2])
    assert (again.blocks, again.rows, again.sentences, again.state) == (2, rows, 14, {"skipped": 1})
    assert contents(again, scenario) == undisturbed


def test_a_torn_block_counts_for_nothing(
    scenario: ModuleType, staged: StagedSegment, undisturbed: dict[str, bytes]
) -> None:
    """Bytes beyond the journal, headers that already count them, a torn Arrow file, a torn journal."""
    for number, file in enumerate(sorted((staged.directory / "segment").iterdir())):
        content = bytearray(file.read_bytes() + bytes(range(7 + 13 * number)))
        content[60:64] = b"9999"
        file.write_bytes(content)
    (staged.directory / "blocks" / "000002.arrow").write_bytes(b"ARROW1")
    (staged.directory / "journal.json.new").write_text("{")
    again = reopened(staged, scenario)
    assert again.blocks == 2
    assert contents(again, scenario) == undisturbed


def test_a_torn_block_before_the_end_of_the_corpus(scenario: ModuleType, staged: StagedSegment) -> None:
    """Finishing without a further block cuts the torn rows off."""
    with open(staged.directory / "segment" / "keys.npy", "ab") as file:
        file.write(b"torn")
    segment = reopened(staged, scenario).finish("000001")
    expected = np.concatenate([block.keys for block in scenario.SECOND[:2]])
    assert (np.load(segment.path / "keys.npy") == expected).all()


@pytest.mark.parametrize("lost", ["segment/values.npy", "blocks/000000.arrow", "journal.json"])
@pytest.mark.parametrize("wholly", [True, False])
def test_what_a_disk_has_lost_is_begun_again(
    scenario: ModuleType, staged: StagedSegment, undisturbed: dict[str, bytes], lost: str, wholly: bool
) -> None:
    file = staged.directory / lost
    if wholly or file.suffix == ".arrow":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] if file.suffix == ".npy" else b"{")
    again = reopened(staged, scenario)
    assert (again.blocks, again.state) == (0, {})
    assert contents(again, scenario) == undisturbed


def test_staged_by_another_version_or_for_another_size(scenario: ModuleType, staged: StagedSegment) -> None:
    assert StagedSegment(staged.directory, scenario.DIM).blocks == 2
    journal = staged.directory / "journal.json"
    value = json.loads(journal.read_text())
    journal.write_text(json.dumps(value | {"format": 99}))
    assert StagedSegment(staged.directory, scenario.DIM).blocks == 0
    append(staged := StagedSegment(staged.directory, scenario.DIM), scenario.SECOND[0])
    assert StagedSegment(staged.directory, scenario.DIM + 1).blocks == 0


def test_finishing_twice_reads_nothing_again(
    scenario: ModuleType, staged: StagedSegment, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = staged.finish("000001")
    monkeypatch.setattr("knnmt.datastore.staging.measure", None)
    assert reopened(staged, scenario).finish("000001").record == first.record


def test_blocks_after_finishing(scenario: ModuleType, staged: StagedSegment, undisturbed: dict[str, bytes]) -> None:
    staged.finish("000001")
    assert contents(staged, scenario) == undisturbed


@pytest.mark.parametrize("change", ["append", "another tail"])
def test_stopped_while_changing_finished_files(
    scenario: ModuleType, staged: StagedSegment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Sizes alone would not show that the files are no longer those that were finished."""
    block = scenario.SECOND[2]
    other = replace(block, keys=-block.keys)
    tails = [scenario.build(tmp_path / str(n), "key", [b]).segments[0] for n, b in enumerate([block, other])]
    staged.finish("000002", tails[0])

    class Killed(BaseException):
        pass

    def splice_and_die(*arguments: Any) -> None:
        splice(*arguments)
        raise Killed

    def change_it() -> None:
        if change == "append":
            append(staged, other)
        else:
            staged.finish("000002", tails[1])

    splice = npy.splice
    with monkeypatch.context() as patch:
        patch.setattr(npy, "splice", splice_and_die)
        with pytest.raises(Killed):
            change_it()
    segment = reopened(staged, scenario).finish("000002", tails[0])
    assert problems(segment.path, segment.record) == []
    assert (segment.keys[-len(block.keys) :] == block.keys).all()


def test_a_failed_block_can_be_given_again(
    scenario: ModuleType, staged: StagedSegment, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device; make room"):
            append(staged, scenario.SECOND[2])
    assert staged.blocks == 2
    assert contents(staged, scenario) == undisturbed


@pytest.mark.parametrize("bad", [70_000.0, -1e30, np.inf, -np.inf, np.nan])
def test_a_key_that_does_not_fit_fp16(scenario: ModuleType, staged: StagedSegment, bad: float) -> None:
    keys = scenario.SECOND[2].keys.astype(np.float32)
    keys[3, 2] = bad
    with pytest.raises(StoreError, match="a key overflows fp16"):
        append(staged, scenario.SECOND[2], keys=keys)
    assert staged.blocks == 2


def test_the_largest_and_smallest_fp16_fit(scenario: ModuleType, staged: StagedSegment) -> None:
    keys = scenario.SECOND[2].keys.astype(np.float32)
    keys[0, :4] = [65504, -65504, 6e-8, -0.0]
    append(staged, scenario.SECOND[2], keys=keys)
    assert (np.load(staged.finish("000001").path / "keys.npy")[-len(keys) :] == keys.astype(np.float16)).all()


def test_arrays_that_do_not_fit_each_other(scenario: ModuleType, staged: StagedSegment) -> None:
    block = scenario.SECOND[2]
    for changes in (
        {"keys": block.keys[:-1]},
        {"keys": block.keys[:, :-1]},
        {"values": block.values[:-1]},
        {"confidence": block.confidence[:-1]},
        {"lengths": block.lengths[:-1]},
        {"lengths": [0, block.lengths[0] + block.lengths[1], *block.lengths[2:]]},
        {"pairs": block.pairs[:-1]},
    ):
        with pytest.raises(ValueError, match=r"."):
            append(staged, block, **changes)
    assert staged.blocks == 2


def test_a_sentence_too_long_for_its_positions(scenario: ModuleType, tmp_path: Path) -> None:
    staged = StagedSegment(tmp_path / "staging" / "key", 1)

    def append_one(tokens: int) -> None:
        keys, zeros = np.ones((tokens, 1)), np.zeros(tokens)
        staged.append(keys, zeros.astype(np.int32), zeros, [tokens], scenario.SECOND[0].pairs[:1], {})

    with pytest.raises(StoreError, match="more than 65,536 tokens"):
        append_one(2**16 + 1)
    append_one(2**16)
    assert staged.finish("000001").position.tolist() == list(range(2**16))


def test_more_entries_than_ids(scenario: ModuleType, staged: StagedSegment, monkeypatch: pytest.MonkeyPatch) -> None:
    block = scenario.SECOND[2]
    monkeypatch.setattr("knnmt.datastore.staging._MAX_ROWS", staged.rows + len(block.values) - 1)
    with pytest.raises(StoreError, match="add the corpus in parts"):
        append(staged, block)
    monkeypatch.setattr("knnmt.datastore.staging._MAX_ROWS", staged.rows + len(block.values))
    append(staged, block)


def test_the_state_is_that_of_the_block(scenario: ModuleType, staged: StagedSegment) -> None:
    state = {"seen": 3}
    append(staged, scenario.SECOND[2], state=state)
    state["seen"] = 4
    assert staged.state == {"seen": 3}


def test_a_block_without_sentences_still_moves_the_state_on(scenario: ModuleType, staged: StagedSegment) -> None:
    empty = scenario.make_block(1, sentences=0)
    append(staged, empty, state={"skipped": 65})
    again = reopened(staged, scenario)
    assert (again.blocks, again.sentences, again.state) == (3, 14, {"skipped": 65})
    assert len(again.finish("000001")) == again.rows
