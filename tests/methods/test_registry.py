"""Combiners in a store."""

import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from worlds import load, make_store

from knnmt.combiner import Combiner
from knnmt.datastore import Store, StoreWriter
from knnmt.errors import MethodError
from knnmt.methods import BASE, Adaptive, Robust, Vanilla, default_of, load_combiner, methods, read_combiner


def keep(store: Store, name: str, combiner: Combiner) -> Store:
    with StoreWriter(store.path, store.model) as writer:
        directory = writer.new_directory("combiners", name)
        combiner.save(directory)
        return writer.commit(combiner=(name, directory))


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    assert default_of(store).name == BASE
    assert load_combiner(store, BASE) is None
    fitted = Vanilla(8, 0.35, 12.5)
    fitted.record = {"nll": 1.25, "base_nll": 1.5}
    store = keep(keep(store, "vanilla", Vanilla(4, 0.1, 1.0)), "mine", fitted)
    loaded = load_combiner(store, "mine")
    assert isinstance(loaded, Vanilla)
    assert (loaded.options(), loaded.record) == (fitted.options(), fitted.record)
    assert default_of(store).name == "mine"
    with pytest.raises(MethodError, match="fitted: mine, vanilla"):
        load_combiner(store, "robust")
    (store.combiners["mine"] / "config.json").write_text("{")
    assert load_combiner(store, "mine"), "a snapshot stays what it was"
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(Store.open(store.path), "mine")


@pytest.mark.parametrize("options", [(0, 0.5, 1.0), (4, 1.5, 1.0), (4, 0.5, 0.0)])
def test_impossible_options(options: tuple[int, float, float]) -> None:
    with pytest.raises(MethodError):
        Vanilla(*options)


def test_a_fit_under_any_name_is_found(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "mine", Vanilla(4, 0.1, 1.0))
    assert default_of(store).name == "mine"
    (store.combiners["mine"] / "config.json").write_text("{}")
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(Store.open(store.path), "mine")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, family_directory: Callable[[str], Path]) -> Store:
    return make_store(tmp_path_factory.mktemp("registry") / "store", load("marian", family_directory("marian")))


def trained() -> list[tuple[str, Combiner]]:
    return [("robust", Robust(4, 2.0, top=2, seed=5)), ("adaptive", Adaptive(4, 2.0, 7.0, seed=5))]


@pytest.mark.parametrize(("method", "combiner"), trained())
def test_networks_are_loaded_from_the_store(store: Store, method: str, combiner: Combiner) -> None:
    combiner.record = {"model": store.model.fingerprint, "seed": 5}
    loaded = load_combiner(keep(store, "networks", combiner), "networks")
    assert isinstance(loaded, Robust | Adaptive)
    assert type(loaded) is methods()[method].combiner is type(combiner)
    assert (loaded.options(), loaded.record) == (combiner.options(), combiner.record)
    for one, other in zip(loaded.network.parameters(), combiner.network.parameters(), strict=True):
        assert torch.equal(one, other)


def measured(combiner: Combiner, nll: float, base_nll: float) -> Combiner:
    combiner.record = {"nll": nll, "base_nll": base_nll}
    return combiner


def test_the_default_has_the_lowest_dev_nll_whatever_its_method(
    tmp_path: Path, family_directory: Callable[[str], Path]
) -> None:
    """An ablation of the best method may be far worse than a plainer method, and worse than the model alone."""
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "ablation", measured(Robust(4, 2.0), 6.66, 3.87))
    default = default_of(store)
    assert (default.name, default.why) == (
        BASE,
        "nothing that was fitted is better than the model alone on its dev pairs",
    )
    store = keep(store, "adaptive", measured(Adaptive(4, 2.0, 7.0), 3.55, 3.87))
    assert default_of(store).name == "adaptive"
    assert default_of(store).why == "lowest dev NLL of what was fitted: 3.550, base 3.870"
    store = keep(store, "vanilla", measured(Vanilla(4, 0.1, 1.0), 3.5, 3.87))
    assert default_of(store).name == "vanilla"
    leaked = measured(Vanilla(4, 0.9, 1.0), 0.1, 3.87)
    leaked.record |= {"leaked": 40, "dev_pairs": 100}
    store = keep(store, "leaked", leaked)
    assert default_of(store).name == "vanilla", "on pairs that are in the store every memory looks good"
    store = keep(store, "other-dev", measured(Vanilla(4, 0.1, 1.0), 1.0, 1.1))
    assert default_of(store).name == "vanilla", "it gains most on its dev pairs, though others are easier"


def test_what_was_chosen_by_hand_wins(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "good", measured(Vanilla(4, 0.1, 1.0), 3.5, 3.87))
    store = keep(store, "bad", measured(Robust(4, 2.0), 6.66, 3.87))
    with StoreWriter(store.path, store.model) as writer:
        assert default_of(writer.choose("bad")).name == "bad"
        assert "knnmt use" in default_of(writer.opened).why
        assert default_of(writer.choose(BASE)).name == BASE
        assert default_of(writer.choose(None)).name == "good"
        writer.choose("bad")
        left = writer.forget("bad")
    assert default_of(left).name == "good"
    assert set(left.combiners) == {"good"}


@pytest.mark.parametrize("damage", ["{", '{"method": "of the future", "options": {}, "record": {}}'])
def test_a_combiner_that_cannot_be_used_does_not_stop_the_others(
    tmp_path: Path, family_directory: Callable[[str], Path], damage: str
) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "good", measured(Vanilla(4, 0.1, 1.0), 3.5, 3.87))
    store = keep(store, "better", measured(Vanilla(4, 0.1, 1.0), 3.4, 3.87))
    (store.combiners["better"] / "config.json").write_text(damage)
    assert default_of(store).name == "better"
    assert default_of(Store.open(store.path)).name == "good"


def test_others_may_read_what_the_umask_allows(tmp_path: Path, family_directory: Callable[[str], Path]) -> None:
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    before = os.umask(0o022)
    try:
        store = keep(store, "robust", Robust(4, 2.0))
    finally:
        os.umask(before)
    for name in ("config.json", "model.safetensors"):
        assert stat.S_IMODE((store.combiners["robust"] / name).stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_without_permission_is_no_damage(
    tmp_path: Path, family_directory: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Root reads everything, so the refusal is made here."""
    store = make_store(tmp_path / "store", load("marian", family_directory("marian")))
    store = keep(store, "robust", Robust(4, 2.0))
    opened = io.open

    def refused(file: Any, *arguments: Any, **options: Any) -> Any:
        if Path(str(file)).name == name:
            raise PermissionError(13, "Permission denied", str(file))
        return opened(file, *arguments, **options)

    monkeypatch.setattr(io, "open", refused)
    opened_now = Store.open(store.path)
    with pytest.raises(MethodError, match=r"(?i)permission denied; ask its owner") as caught:
        load_combiner(opened_now, "robust")
    assert "fit it again" not in str(caught.value)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def _one_less(file: Path) -> None:
    weights = load_file(file)
    weights.pop(sorted(weights)[0])
    save_file(weights, file)


def _one_more(file: Path) -> None:
    save_file(load_file(file) | {"extra": torch.zeros(2)}, file)


def _transposed(file: Path) -> None:
    save_file({name: tensor.t().contiguous() for name, tensor in load_file(file).items()}, file)


DAMAGES: list[Callable[[Path], object]] = [
    Path.unlink,
    _cut,
    _one_less,
    _one_more,
    _transposed,
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"not weights at all, and some more of it"),
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("name", "combiner"), trained())
def test_damaged_weights(store: Store, name: str, combiner: Combiner, damage: Callable[[Path], object]) -> None:
    store = keep(store, name, combiner)
    assert load_combiner(store, name)
    damage(store.combiners[name] / "model.safetensors")
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(store, name)


def test_weights_of_other_options(store: Store) -> None:
    """The config says 8 neighbours, the weights are for 4."""
    store = keep(store, "robust", Robust(4, 2.0))
    file = store.combiners["robust"] / "config.json"
    config = json.loads(file.read_text())
    config["options"]["k"] = 8
    file.write_text(json.dumps(config))
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(Store.open(store.path), "robust")


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "null",
        '"method"',
        '["method"]',
        '{"method": []}',
        '{"method": "robust"}',
        '{"method": "robust", "options": [], "record": {}}',
        '{"method": "robust", "options": {"k": "4", "scale": 1}, "record": {}}',
        '{"method": "robust", "options": {"k": 4, "scale": 1, "unheard": 1}, "record": {}}',
        '{"method": "adaptive", "options": {"k": 4, "scale": 1}, "record": {}}',
        '{"method": "vanilla", "options": {"k": 4, "lambda": 0.5, "temperature": 1}, "record": null}',
    ],
)
def test_damaged_config(store: Store, text: str) -> None:
    store = keep(store, "robust", Robust(4, 2.0))
    (store.combiners["robust"] / "config.json").write_text(text)
    with pytest.raises(MethodError, match="fit it again"):
        load_combiner(Store.open(store.path), "robust")


def test_a_method_of_the_future(store: Store) -> None:
    store = keep(store, "new", Vanilla(4, 0.1, 1.0))
    (store.combiners["new"] / "config.json").write_text('{"method": "clairvoyant", "options": {}, "record": {}}')
    with pytest.raises(MethodError, match="method clairvoyant, unknown here; upgrade"):
        load_combiner(Store.open(store.path), "new")


@pytest.mark.parametrize("name", ["robust", "adaptive", "vanilla"])
def test_fitted_to_another_model(store: Store, name: str) -> None:
    """Networks know one model's distances and log p's."""
    combiner = (dict(trained()) | {"vanilla": Vanilla(4, 0.1, 1.0)})[name]
    combiner.record = {"model": "0" * 32}
    with pytest.raises(MethodError, match="another model than the store"):
        load_combiner(keep(store, name, combiner), name)
    combiner.record = {"model": store.model.fingerprint}
    assert load_combiner(keep(store, name, combiner), name)


def test_who_changes_a_loaded_combiner_does_not_change_the_store(store: Store) -> None:
    store = keep(store, "mine", measured(Vanilla(4, 0.1, 1.0), 3.5, 3.87))
    loaded = load_combiner(store, "mine")
    assert loaded is not None
    loaded.record["nll"] = 0.0
    again = load_combiner(store, "mine")
    assert again is not None
    assert again.record["nll"] == 3.5


@pytest.mark.parametrize(
    "combiner", [Vanilla(4, 0.25, 7.0), *(combiner for _, combiner in trained())], ids=lambda combiner: combiner.method
)
def test_a_combiner_outside_of_a_store(tmp_path: Path, combiner: Combiner) -> None:
    combiner.record = {"nll": 1.25, "model": "any"}
    combiner.save(tmp_path)
    loaded = read_combiner(tmp_path)
    assert type(loaded) is type(combiner)
    assert (loaded.options(), loaded.record) == (combiner.options(), combiner.record)
    if isinstance(loaded, Adaptive | Robust):
        assert isinstance(combiner, Adaptive | Robust)
        for one, other in zip(loaded.network.parameters(), combiner.network.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"robust"',
        '{"method": "robust"}',
        '{"method": "robust", "options": {"k": "4", "scale": 1}, "record": {}}',
        "{}",
        '{"method": []}',
    ],
)
def test_a_damaged_combiner_outside_of_a_store(tmp_path: Path, text: str) -> None:
    Robust(4, 2.0).save(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(MethodError, match="fit it again"):
        read_combiner(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_weights_outside_of_a_store(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    Robust(4, 2.0).save(tmp_path)
    damage(tmp_path / "model.safetensors")
    with pytest.raises(MethodError, match="fit it again"):
        read_combiner(tmp_path)


def test_nothing_outside_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(MethodError, match="fit it again"):
        read_combiner(tmp_path / "gone")
    Vanilla(4, 0.1, 1.0).save(tmp_path)
    (tmp_path / "config.json").write_text('{"method": "clairvoyant", "options": {}, "record": {}}')
    with pytest.raises(MethodError, match="method clairvoyant, unknown here; upgrade"):
        read_combiner(tmp_path)
