"""Combiners in a store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from worlds import load, make_store

from knnmt.combiner import BASE, Combiner, Vanilla, default_name, load_combiner
from knnmt.datastore import Store, StoreWriter
from knnmt.errors import MethodError


def keep(store: Store, name: str, combiner: Combiner) -> Store:
    with StoreWriter(store.path, store.model) as writer:
        directory = writer.new_directory("combiners", name)
        combiner.save(directory)
        return writer.commit(combiner=(name, directory))


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    assert default_name(store) == BASE
    assert load_combiner(store, BASE) is None
    fitted = Vanilla(8, 0.35, 12.5)
    fitted.record = {"nll": 1.25}
    store = keep(keep(store, "mine", fitted), "vanilla", Vanilla(4, 0.1, 1.0))
    loaded = load_combiner(store, "mine")
    assert isinstance(loaded, Vanilla)
    assert (loaded.options(), loaded.record) == (fitted.options(), fitted.record)
    assert default_name(store) == "vanilla"
    with pytest.raises(MethodError, match="fitted: mine, vanilla"):
        load_combiner(store, "robust")
    (store.combiners["mine"] / "config.json").write_text("{")
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(store, "mine")


@pytest.mark.parametrize("options", [(0, 0.5, 1.0), (4, 1.5, 1.0), (4, 0.5, 0.0)])
def test_impossible_options(options: tuple[int, float, float]) -> None:
    with pytest.raises(MethodError):
        Vanilla(*options)


def test_a_fit_under_any_name_is_found(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "mine", Vanilla(4, 0.1, 1.0))
    assert default_name(store) == "mine"
    (store.combiners["mine"] / "config.json").write_text("{}")
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(store, "mine")
