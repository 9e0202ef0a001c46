"""Views: some rows of a store, as if there were no others."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from knnmt.datastore import Entries, Store, StoreWriter, verify_files
from knnmt.errors import StoreError


@pytest.fixture
def store(scenario: ModuleType, tmp_path: Path) -> Store:
    """Two segments: an index covers the first."""
    scenario.build(tmp_path / "s", "first", scenario.FIRST, index=True)
    return scenario.build(tmp_path / "s", "second", scenario.SECOND)  # type: ignore[no-any-return]


def masks(store: Store, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {segment.name: random.random(len(segment)) < 0.5 for segment in store.segments}


def commit(store: Store, mask: dict[str, Any], name: str = "pruned", index: bool = False) -> Store:
    with StoreWriter(store.path, store.model) as writer:
        entries = Entries(writer.opened.segments, mask)
        directory = writer.new_directory("index") if index else None
        if directory is not None:
            (directory / "config.json").write_text(json.dumps({"segments": entries.checksums}))
        return writer.commit_view(name, entries, directory)


@pytest.mark.parametrize("segments", [1, 2], ids=["one segment masked", "both"])
def test_only_live_rows_are_entries(store: Store, segments: int) -> None:
    mask = dict(list(masks(store).items())[:segments])
    whole = commit(store, mask)
    assert (whole.fingerprint, len(whole.entries)) == (store.fingerprint, len(store.entries))
    assert whole.covered_segments() == {"000001"}, "the store itself is as it was"
    view = Store.open(store.path).view("pruned")
    live = [
        segment.number * 2**32 + row
        for segment in store.segments
        for row in range(len(segment))
        if segment.name not in mask or mask[segment.name][row]
    ]
    assert view.entries.ids(np.arange(len(live))).tolist() == live
    assert len(view.entries) == view.entry_count == len(live)
    assert (view.entries.keys(np.array(live)) == store.entries.keys(np.array(live))).all()
    assert view.fingerprint == Entries(store.segments, mask).fingerprint != store.fingerprint
    assert [each.position for each in view.provenance(np.array(live))] == view.entries.position(np.array(live)).tolist()
    assert view.index_config is None
    assert verify_files(store.path) == []


def test_its_files(store: Store) -> None:
    mask = masks(store)
    commit(store, mask, index=True)
    manifest = json.loads((store.path / "manifest.json").read_text())
    record = manifest["views"]["pruned"]
    assert (record["mask"]["directory"], record["index"]) == ("views/pruned.000001", "pruned")
    assert manifest["indexes"]["pruned"]["directory"] == "index/000002"
    assert list(record["mask"]["files"]) == ["000001.npy", "000002.npy"]
    for name, rows in mask.items():
        bits = np.load(store.path / f"views/pruned.000001/{name}.npy")
        assert (bits.dtype, bits.shape) == (np.uint8, (-(-len(rows) // 8),))
        for row, live in enumerate(rows):
            assert bool(bits[row // 8] >> (7 - row % 8) & 1) == live
    assert Store.open(store.path).sizes()["views"] == sum(
        file.stat().st_size for file in (store.path / "views").rglob("*.npy")
    )


def test_a_view_has_an_index_of_its_own(store: Store) -> None:
    whole = commit(store, masks(store), index=True)
    view = whole.view("pruned")
    assert view.index_directory == store.path / "index/000002"
    assert whole.index_directory == store.path / "index/000001"
    assert view.covered_segments() == {"000001", "000002"}
    assert commit(store, masks(store)).view("pruned").index_config is None, "a new mask needs a new index"
    assert set(Store.open(store.path).manifest.indexes) == {"main"}


def test_segments_added_later_are_not_part_of_it(scenario: ModuleType, store: Store) -> None:
    """Nor is the last one, though small, joined with what is added: the view is of its rows."""
    view = commit(store, masks(store)).view("pruned")
    newer = scenario.build(store.path, "third", [scenario.make_block(8)])
    assert [segment.name for segment in newer.segments] == ["000001", "000002", "000003"]
    again = view.latest()
    assert again is not view
    assert [segment.name for segment in again.segments] == ["000001", "000002"]
    assert again.fingerprint == view.fingerprint
    assert again.latest() is again
    (_, last) = scenario.build(store.path, "fourth", [scenario.make_block(9)]).segments[1:]
    assert last.name == "000004", "what no view has is joined as ever"
    assert verify_files(store.path) == []


def test_a_view_of_some_segments(store: Store) -> None:
    with StoreWriter(store.path, store.model) as writer:
        view = writer.commit_view("recent", Entries(store.segments[1:])).view("recent")
    assert [segment.name for segment in view.segments] == ["000002"]
    assert len(view.entries) == len(store.segments[1])
    with pytest.raises(IndexError):
        view.entries.values(store.entries.ids(np.array([0])))


def test_views_are_replaced_and_removed(store: Store) -> None:
    first = commit(store, masks(store), index=True).view("pruned")
    commit(store, masks(store, 1), "other", index=True)
    second = commit(store, masks(store, 2), index=True)
    assert second.view("pruned").fingerprint != first.fingerprint
    assert first.entries.mask["000001"].tolist() == masks(store)["000001"].tolist(), "a reader keeps what it has"
    assert (store.path / "views/pruned.000001").is_dir(), "held by the reader"
    with StoreWriter(store.path, store.model) as writer:
        left = writer.remove_view("pruned")
        with pytest.raises(StoreError, match="no view pruned of the store; it has other"):
            writer.remove_view("pruned")
    assert set(left.manifest.indexes) == {"main", "other"}
    with pytest.raises(StoreError, match="no view pruned"):
        first.latest()
    del first, second
    with StoreWriter(store.path, store.model):
        pass
    assert [path.name for path in (store.path / "views").iterdir()] == ["other.000001"]
    assert sorted(path.name for path in (store.path / "index").iterdir()) == ["000001", "000003"]
    assert verify_files(store.path) == []


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip, shorten, Path.unlink])
def test_damage(store: Store, damage: Any) -> None:
    """The store can be used without the view."""
    mask = store.path / "views/pruned.000001/000002.npy"
    commit(store, masks(store))
    damage(mask)
    (problem,) = verify_files(store.path)
    assert problem.startswith(str(mask))
    assert problem.endswith("make the view again, or remove it")
    opened = Store.open(store.path)
    assert opened.fingerprint == store.fingerprint
    if damage is not flip:  # which only a checksum shows
        with pytest.raises(StoreError, match="make the view again"):
            opened.view("pruned")
    with StoreWriter(store.path, store.model) as writer:
        assert not writer.remove_view("pruned").manifest.views


@pytest.mark.parametrize("bits", [np.zeros(3, np.uint8), np.zeros((2, 2), np.uint8), np.zeros(8, np.int64)])
def test_a_mask_of_another_shape(store: Store, bits: Any) -> None:
    file = store.path / "views/pruned.000001/000001.npy"
    commit(store, masks(store))
    np.save(file, bits)
    manifest = json.loads((store.path / "manifest.json").read_text())
    manifest["views"]["pruned"]["mask"]["files"][file.name]["bytes"] = file.stat().st_size
    (store.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="is not one bit for each of"):
        Store.open(store.path).view("pruned")


def test_a_mask_of_a_segment_that_is_not_there(store: Store) -> None:
    commit(store, masks(store))
    manifest = json.loads((store.path / "manifest.json").read_text())
    del manifest["segments"][1]
    (store.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=r"000002.npy is of a segment that the store does not have"):
        Store.open(store.path).view("pruned")


def test_what_cannot_be_a_view(scenario: ModuleType, store: Store, tmp_path: Path) -> None:
    for name, words in (("../v", "cannot name a view; use letters"), ("main", "index of the whole store")):
        with pytest.raises(StoreError, match=words):
            commit(store, {}, name)
    nothing = {segment.name: np.zeros(len(segment), np.bool_) for segment in store.segments}
    with pytest.raises(StoreError, match="nothing to search; keep some entries"):
        commit(store, nothing)
    other = scenario.build(tmp_path / "other", "other", scenario.SECOND)
    with StoreWriter(store.path, store.model) as writer:
        with pytest.raises(StoreError, match=r"segment 000001, which is no longer in .*s; open the store again"):
            writer.commit_view("v", other.entries)
        with pytest.raises(ValueError, match="new_directory"):
            writer.commit_view("v", store.entries, tmp_path)
    assert Store.open(store.path).manifest == store.manifest
    assert not (store.path / "views").exists()
