"""What steps run with: opened once, and not too much at the same time."""

from pathlib import Path
from typing import Any

import pytest
from tiny_study import HALVED, PLAIN

from knnmt.decoding import Settings
from knnmt.model import TranslationModel
from knnmt.study import machine
from knnmt.study.lab import BaseModel, Lab
from knnmt.study.step import MissingResult
from knnmt.study.studies.confidence import CUTS
from knnmt.study.work import Work


def test_what_a_model_is(model: TranslationModel, tmp_path: Path) -> None:
    lab = Lab(Work(tmp_path), model, Settings(), engine="torch")
    about = dict(lab.base.about)
    assert about["fingerprint"] == lab.base.fingerprint == model.fingerprint
    assert (about["engine"], about["precision"]) == ("torch", "float32")
    assert (lab.base.dim, lab.base.name) == (model.dim, model.name)
    assert lab.base.parameters == sum(each.numel() for each in model.hf.parameters())
    assert lab.base.base is lab.base


def test_engine_and_precision_are_those_of_translations(model: TranslationModel, tmp_path: Path) -> None:
    lab = Lab(Work(tmp_path), model, Settings(beam=2), engine="torch", precision="float32")
    assert (lab.settings.engine, lab.settings.precision, lab.settings.beam) == ("torch", "float32", 2)


def test_searchers_are_opened_once_and_closed_in_time(studied: Any) -> None:
    """A pruned store may need gigabytes."""
    run = studied.open(studied.out, only=["confidence"], domains=[HALVED])
    setup = run.setups["confidence"]
    domain = setup.benchmark.domains[HALVED]
    lab = run.lab
    store = setup.store(domain)
    first = lab.searcher(store)
    assert lab.searcher(store) is first
    views = [setup.view(domain, cut) for cut in CUTS.values()]
    for view in views:
        searcher = lab.searcher(view)
        assert searcher.store.fingerprint == lab.store(view).fingerprint != first.store.fingerprint
        assert lab.searcher(view) is searcher
        assert len(lab._searchers) <= 2
    assert lab.searcher(store) is not first


def test_fine_tuned_models_are_loaded_as_the_base(studied: Any) -> None:
    pytest.importorskip("peft")
    run = studied.open(studied.out, only=["finetune"], domains=[PLAIN])
    setup = run.setups["finetune"]
    [study] = run.studies
    tuned = [way.tuned for way in study._ways(setup, setup.benchmark.domains[PLAIN]) if way.tuned and not way.knn]
    lab = run.lab
    assert lab.model(setup.model) is studied.model
    for step in tuned:
        model = lab.model(step)
        assert lab.model(step) is model
        assert (model.device, model.key_layer) == (studied.model.device, studied.model.key_layer)
        assert model.codec.languages == studied.model.codec.languages
        assert len(lab._models) <= 3
        assert lab.model(setup.model) is studied.model, "the base is always there"


def test_results_that_are_missing(studied: Any, tmp_path: Path, model: TranslationModel) -> None:
    lab = Lab(Work(tmp_path), model, Settings(), engine="torch")
    step = studied.executed[0]
    with pytest.raises(MissingResult, match=f"{step.title} has not run"):
        lab.result(step)


def test_the_machine() -> None:
    assert machine.processor()
    assert {"python", "knnmt", "torch", "transformers", "faiss-cpu", "sacrebleu"} <= machine.versions().keys()
    assert all(machine.versions().values())


def test_the_scale_of_a_model() -> None:
    """Rates of work before any is measured are those of opus-mt."""
    sizes = {parameters: BaseModel("m", (), 512, parameters) for parameters in (75_000_000, 300_000_000)}
    assert [each.scale for each in sizes.values()] == [1.0, 4.0]
    assert sizes[300_000_000].memory > sizes[75_000_000].memory > 1e9
