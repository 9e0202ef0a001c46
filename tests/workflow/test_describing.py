"""What a store holds, in the form that programs rely on."""

import json
from collections.abc import Callable
from pathlib import Path

from sentences import SENTENCES

from knnmt.datastore import Store
from knnmt.model import TranslationModel
from knnmt.workflow import fit, info


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
