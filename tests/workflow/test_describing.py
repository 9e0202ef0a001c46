"""What a store holds, in the form that programs rely on."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sentences import SENTENCES

from knnmt.datastore import Entries, Store
from knnmt.datastore.cuts import ConfidenceCut
from knnmt.model import TranslationModel
from knnmt.workflow import fit, info, make_view


def test_the_form_that_programs_rely_on(
    store: Store, model: TranslationModel, write_corpus: Callable[..., list[Path]]
) -> None:
    dev = write_corpus(SENTENCES[:3], "dev")
    for name, k in (("wide", 8), (None, 4)):
        fit(store.path, dev, "vanilla", model=model, decode_best=0, k=k, name=name)
    value = json.loads(json.dumps(info(store.path), allow_nan=False))
    assert value == json.loads(json.dumps(info(Store.open(store.path))))
    assert value["entries"] == value["pairs"] == store.entry_count
    assert value["sentences"] == store.sentence_count == len(SENTENCES[10:])
    assert value["dim"] == store.dim
    assert value["model"]["fingerprint"] == store.model.fingerprint
    assert value["bytes"]["keys"] >= store.entry_count * store.dim * 2
    files = [path for path in store.path.rglob("*") if path.is_file() and path.name not in ("manifest.json", "lock")]
    assert sum(value["bytes"].values()) == sum(path.stat().st_size for path in files)
    assert value["search"]["engine"] == "faiss"
    assert value["search"]["index"] == "Flat"
    assert value["search"]["recall"]["16"] == 1
    assert [(combiner["name"], combiner["method"], combiner["k"]) for combiner in value["combiners"]] == [
        ("vanilla", "vanilla", 4),
        ("wide", "vanilla", 8),
    ]


def test_networks_are_listed_with_how_they_were_trained(
    store: Store, model: TranslationModel, write_corpus: Callable[..., list[Path]]
) -> None:
    dev = write_corpus(SENTENCES[:3], "dev")
    robust = fit(store.path, dev, model=model, seed=9, updates=2, without=["dc"])
    adaptive = fit(store.path, model=model, method="adaptive", name="mine", seed=9, updates=2, sentences=3)
    listed = json.loads(json.dumps(info(store.path), allow_nan=False))["combiners"]
    assert [(each["name"], each["method"]) for each in listed] == [("mine", "adaptive"), ("robust", "robust")]
    for found, report in zip(listed, (adaptive, robust), strict=True):
        options = json.loads(json.dumps(report.combiner.options()))
        assert {name: found[name] for name in options} == options
        assert found["record"]["nll"] == report.nll
        assert found["record"]["training"]["seed"] == 9
        assert found["record"]["training"]["history"][-1][0] == 2
    assert [found["record"]["dev_pairs"] for found in listed] == [None, 3]
    assert listed[1]["without"] == ["dc"]


def test_views(store: Store) -> None:
    assert info(store)["views"] == []
    (segment,) = store.segments
    make_view(store, "unsure", ConfidenceCut(0.0, 0.6), "ivf")
    make_view(store, "three", Entries(store.segments, {segment.name: np.isin(segment.sentence, [1, 2, 5])}))
    make_view(store, "exact", ConfidenceCut(0.0, 0.2), "flat")
    value = json.loads(json.dumps(info(store.path), allow_nan=False))
    exact, three, unsure = value["views"]
    assert [each["name"] for each in value["views"]] == ["exact", "three", "unsure"]
    assert all(each["problems"] == [] for each in value["views"])
    assert (three["entries"], three["sentences"]) == (np.isin(segment.sentence, [1, 2, 5]).sum(), 3)
    assert (three["index"], three["recall"]["16"]) == (exact["index"], exact["recall"]["16"]) == ("Flat", 1)
    assert unsure["entries"] == store.entry_count - round(0.6 * store.entry_count)
    assert 0 < unsure["sentences"] <= store.sentence_count
    assert unsure["index"].startswith("IVF")
    assert set(unsure["recall"]) == {"8", "16", "32"}
    assert unsure["bytes"] > exact["bytes"] > three["bytes"] > 0
    assert sum(each["bytes"] for each in value["views"]) == value["bytes"]["views"] + value["bytes"]["index"]
    assert value["entries"] == store.entry_count, "the store itself is as it was"


def test_damaged_views(store: Store) -> None:
    for name in ("index", "mask", "sound"):
        make_view(store, name, ConfidenceCut(0.0, 0.6), "ivf")
    before = {each["name"]: each for each in info(store.path)["views"]}
    (store.path / "index/000001/index.faiss").unlink()
    (store.path / f"views/mask.000001/{store.segments[0].name}.npy").unlink()
    found = {each["name"]: each for each in info(store.path)["views"]}
    assert found["sound"] == before["sound"]
    (problem,) = found["index"]["problems"]
    assert problem.startswith(f"{store.path}/index/000001/index.faiss is missing; ")
    assert found["index"] == before["index"] | {"problems": [problem]}
    (problem,) = found["mask"]["problems"]
    assert problem.endswith(f"{store.segments[0].name}.npy is missing; make the view again, or remove it")
    unknown = dict.fromkeys(("entries", "sentences", "index", "recall"))
    assert found["mask"] == before["mask"] | unknown | {"problems": [problem]}
    (store.path / "index/000001/config.json").unlink()
    lost = next(each for each in info(store.path)["views"] if each["name"] == "index")
    assert (lost["entries"], lost["index"], lost["recall"]) == (before["index"]["entries"], None, None)
