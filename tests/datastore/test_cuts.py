"""Cuts against loops over all entries."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from knnmt.datastore import Entries, Store, writer
from knnmt.datastore.cuts import ConfidenceCut, Cut, RandomCut
from knnmt.errors import StoreError

SHARES = [(0.0, 0.2), (0.2, 0.4), (0.35, 0.8), (0.8, 1.0), (0.0, 0.001), (0.1, 0.10001)]


@pytest.fixture(params=["different", "ties", "all the same"])
def store(
    request: pytest.FixtureRequest, scenario: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Store:
    """Three segments, whose numbers have a gap."""
    blocks = [scenario.make_block(seed) for seed in (1, 2, 3, 4)]
    for block in blocks:
        if request.param == "ties":
            block.confidence = np.round(block.confidence)
        elif request.param == "all the same":
            block.confidence = np.zeros_like(block.confidence)
    scenario.build(tmp_path / "s", "0", blocks[:1])
    scenario.build(tmp_path / "s", "1", blocks[1:2])  # takes the first in
    monkeypatch.setattr(writer, "TAIL_ENTRIES", 0)
    scenario.build(tmp_path / "s", "2", blocks[2:3])
    built: Store = scenario.build(tmp_path / "s", "3", blocks[3:])
    assert [segment.number for segment in built.segments] == [2, 3, 4]
    return built


@pytest.fixture(params=["all rows", "masked"])
def entries(request: pytest.FixtureRequest, store: Store) -> Entries:
    """The store's entries; or without some of the first segment, and without all of the second."""
    first, second, _ = store.segments
    mask = {first.name: np.arange(len(first)) % 3 > 0, second.name: np.zeros(len(second), np.bool_)}
    return store.entries if request.param == "all rows" else Entries(store.segments, mask)


def ids_of(entries: Entries) -> list[int]:
    """Of all entries that count, by looking at one row after the other."""
    return [
        segment.number * 2**32 + row
        for segment in entries.segments
        for row in range(len(segment))
        if segment.name not in entries.mask or entries.mask[segment.name][row]
    ]


def confidence_of(entries: Entries, entry: int) -> float:
    (segment,) = (each for each in entries.segments if each.number == entry >> 32)
    return float(segment.confidence[entry % 2**32])


@pytest.mark.parametrize(("start", "stop"), SHARES)
def test_cut_by_confidence(entries: Entries, start: float, stop: float) -> None:
    everything = ids_of(entries)
    ranked = sorted(everything, key=lambda entry: (-confidence_of(entries, entry), entry))
    left_out = ranked[round(start * len(ranked)) : round(stop * len(ranked))]
    kept = ConfidenceCut(start, stop).kept(entries)
    assert ids_of(kept) == kept.ids(np.arange(len(kept))).tolist() == [e for e in everything if e not in left_out]
    assert len(kept) == len(everything) - len(left_out)


@pytest.mark.parametrize("make", [ConfidenceCut, lambda start, stop: RandomCut(stop, 5, start)])
def test_cuts_that_meet_leave_out_each_entry_once(entries: Entries, make: type[ConfidenceCut]) -> None:
    shares = [0.0, 0.15, 0.4, 0.41, 0.9]
    everything, left_out = ids_of(entries), []
    for start, stop in zip(shares, [*shares[1:], 1.0], strict=True):
        kept = set(ids_of(make(start, stop).kept(entries)))
        left_out += [entry for entry in everything if entry not in kept]
    assert sorted(left_out) == everything


def test_cut_at_random(entries: Entries) -> None:
    everything = set(ids_of(entries))
    left_out = {share: everything - set(ids_of(RandomCut(share, 1).kept(entries))) for share in (0.2, 0.4, 0.8)}
    assert [len(ids) for ids in left_out.values()] == [round(share * len(everything)) for share in left_out]
    assert left_out[0.2] < left_out[0.4] < left_out[0.8]
    again, other = (everything - set(ids_of(RandomCut(0.4, seed).kept(entries))) for seed in (1, 2))
    assert again == left_out[0.4] != other


def test_a_cut_of_what_another_has_left(entries: Entries) -> None:
    """The shares are of what is left, and nothing that was left out comes back."""
    first = ConfidenceCut(0.0, 0.5).kept(entries)
    second = RandomCut(0.5, 1).kept(first)
    assert set(ids_of(second)) < set(ids_of(first)) < set(ids_of(entries))
    assert len(second) == len(first) - round(0.5 * len(first))
    assert len({each.fingerprint for each in (entries, first, second)}) == 3


@pytest.mark.parametrize(("start", "stop"), [(-0.1, 0.5), (0.5, 1.1), (0.5, 0.5), (0.6, 0.4), (0.0, float("nan"))])
def test_shares_that_are_none(start: float, stop: float) -> None:
    for make in (ConfidenceCut, lambda start, stop: RandomCut(stop, 1, start)):
        with pytest.raises(StoreError, match=r"give two shares from 0 to 1, the smaller one first$"):
            make(start, stop)


def test_names_differ() -> None:
    cuts: list[Cut] = [ConfidenceCut(0.0, 0.2), ConfidenceCut(0.2, 0.4), RandomCut(0.2, 1), RandomCut(0.2, 2)]
    assert [cut.name for cut in cuts] == [
        "confidence-0-20",
        "confidence-20-40",
        "random-0-20-seed-1",
        "random-0-20-seed-2",
    ]
    assert ConfidenceCut(0.29, 1 / 3).name == "confidence-29-33.3333"
