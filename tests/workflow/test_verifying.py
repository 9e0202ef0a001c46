"""Verifying looks into views too."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knnmt.datastore import Entries, Store, StoreWriter
from knnmt.search import build_index
from knnmt.workflow import verify


@pytest.mark.parametrize("kind", [None, "flat", "ivf"])
def test_a_view(store: Store, kind: str | None) -> None:
    first = store.segments[0]
    entries = Entries(store.segments, {first.name: np.arange(len(first)) % 2 > 0})
    with StoreWriter(store.path, store.model) as writer:
        directory = None if kind is None else writer.new_directory("index")
        if directory is not None and kind is not None:
            build_index(entries, directory, kind)
        writer.commit_view("odd", entries, directory)
    assert verify(store.path) == []


def test_an_index_of_other_rows_than_its_view(store: Store) -> None:
    """All files are as they were written, so only opening it shows that they do not fit."""
    first = store.segments[0]
    with StoreWriter(store.path, store.model) as writer:
        directory = writer.new_directory("index")
        build_index(store.entries, directory, "flat")
        writer.commit_view("odd", Entries(store.segments, {first.name: np.arange(len(first)) % 2 > 0}), directory)
    (problem,) = verify(store.path)
    assert "is not of this store's segments; make the view again" in problem


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1])])
def test_a_damaged_mask(store: Store, damage: Callable[[Path], object]) -> None:
    with StoreWriter(store.path, store.model) as writer:
        writer.commit_view("all", store.entries)
    damage(store.path / f"views/all.000001/{store.segments[0].name}.npy")
    (problem,) = verify(store.path)
    assert problem.endswith("make the view again, or remove it")
