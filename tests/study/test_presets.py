"""The preset `paper` from beginning to end, on a tiny model of the paper's family."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from naive_study import combiner_of, store_of
from tiny_study import GZIPPED, HALVED, PLAIN, QUICK, closure, setup_of, write_benchmark
from worlds import load

from knnmt.decoding import Settings
from knnmt.methods import Adaptive, Robust, Vanilla, read_combiner
from knnmt.model import TranslationModel
from knnmt.search import parameters
from knnmt.study import Run
from knnmt.study.presets import PRESETS
from knnmt.study.setup import Setup
from knnmt.study.steps import Build, Fit, View
from knnmt.study.studies import STUDIES
from knnmt.study.studies.confidence import CUTS

# K, λ and T of vanilla, T of adaptive, β of robust
VALUES = {
    "it": (8, 0.7, 10.0, 10.0, None),
    "medical": (4, 0.8, 10.0, 10.0, None),
    "law": (4, 0.8, 10.0, 10.0, None),
    "koran": (16, 0.8, 100.0, 100.0, 10.0),
}


@pytest.fixture(scope="module")
def fsmt(family_directory: Callable[[str], Path]) -> TranslationModel:
    return load("fsmt", family_directory("fsmt"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, fsmt: TranslationModel) -> Run:
    """The main study, with shorter trainings than the paper's; the model is the preset's own."""
    root = tmp_path_factory.mktemp("paper")
    benchmark = write_benchmark(root / "benchmark", [HALVED, PLAIN])
    loaded: list[str] = []

    def load_it(name: str, **_: Any) -> TranslationModel:
        loaded.append(name)
        return fsmt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationModel, "load", load_it)
        patch.setitem(PRESETS, "paper", replace(PRESETS["paper"], options=QUICK.options))
        run = Run.open(benchmark, None, root / "report", only=["main"], preset="paper", engine="torch")
        run.finish()
    assert loaded == ["facebook/wmt19-de-en"]
    return run


def test_values_of_each_domain(run: Run) -> None:
    setup = run.setups["main"]
    assert set(setup.benchmark.domains) == {HALVED, PLAIN}
    for name, domain in setup.benchmark.domains.items():
        k, lam, temperature, of_adaptive, beta = VALUES[name]
        fits = {method: setup.fit(domain, method) for method in ("vanilla", "adaptive", "robust")}
        vanilla, adaptive, robust = (read_combiner(combiner_of(run.lab, fit)) for fit in fits.values())
        assert isinstance(vanilla, Vanilla)
        assert isinstance(adaptive, Adaptive)
        assert isinstance(robust, Robust)
        assert vanilla.options() == {"k": k, "lambda": lam, "temperature": temperature}
        assert (adaptive.k, adaptive.temperature) == (8, of_adaptive)
        assert robust.k == 8
        assert robust.record["training"]["beta"] == (beta or 1000)
        assert vanilla.record["nll"] == run.lab.result(fits["vanilla"])["nll"]


def test_the_index(run: Run) -> None:
    """4,096 lists, 64 codes of 8 bits, 32 probes: as many of them as a tiny store can have; also of views."""
    assert (parameters.PQ_LISTS, parameters.PQ_CODES, parameters.PQ_BITS, parameters.PQ_PROBES) == (4096, 64, 8, 32)
    setup = run.setups["main"]
    for name, domain in setup.benchmark.domains.items():
        view = setup.view(domain, CUTS["[0%, 20%)"])
        run.lab.run(view)
        store = store_of(run.lab, setup.store(domain))
        for each in (store, store.view(view.name)):
            assert each.index_config is not None
            config = each.index_config.fields
            assert config["requested"] == config["kind"] == "ivfpq"
            assert config["probes"] == min(32, config["lists"])
            assert config["index"].startswith(f"IVF{config['lists']},PQ32x")
        shown = json.loads((run.report.path / "tables" / "main-sizes.json").read_text())
        index = {row[0]["text"]: row[5]["text"] for row in shown["rows"]}[name]
        assert index.startswith("IVF")


def test_decoding(run: Run) -> None:
    assert Settings().beam == 4
    assert Settings().penalty == 0.6
    shown = json.loads((run.report.path / "tables" / "main-bleu.json").read_text())
    own = [cell["signature"] for row in shown["rows"] for cell in row if "signature" in cell]
    assert len(own) == 8
    for signature in own:
        assert "|beam:4|lp:0.6|maxlen:1.2x+10|nbest:1|" in signature
        assert "skip:" not in signature
    assert [row[0]["text"] for row in shown["rows"]][4:] == [
        *("base, paper", "vanilla, paper", "adaptive, paper", "robust, paper"),
    ]
    page = (run.report.path / "index.html").read_text()
    assert "preset paper" in page


def test_all_domains_and_studies(benchmark: Path) -> None:
    """Every store, view and fit of every study has the preset's values."""
    setup = setup_of(benchmark, preset=PRESETS["paper"])
    seen = set()
    for study in STUDIES.values():
        for step in closure(study.steps(setup)).values():
            if isinstance(step, Build | View):
                assert step.index == "ivfpq"
            if isinstance(step, Fit):
                k, lam, temperature, of_adaptive, beta = VALUES[step.memory.domain]
                options, fixed = dict(step.options), dict(step.fixed)
                if step.method == "vanilla":
                    tuned = study.name == "k"
                    assert (fixed["lambda"], fixed["temperature"]) == (lam, temperature)
                    assert tuned or fixed["k"] == k
                    assert step.features.k == fixed["k"], "no more neighbours are collected than it takes"
                if step.method == "adaptive":
                    assert options["temperature"] == of_adaptive
                    assert step.vanilla is None
                if step.method == "robust":
                    assert options.get("beta") == beta
                seen.add((step.memory.domain, step.method))
    assert seen == {(d, m) for d in (HALVED, PLAIN, GZIPPED) for m in ("vanilla", "adaptive", "robust", "evidence")}


def test_values_are_those_of_the_paper() -> None:
    preset = PRESETS["paper"]
    for name, (k, lam, temperature, of_adaptive, beta) in VALUES.items():
        assert preset.vanilla[name] == {"k": k, "lambda": lam, "temperature": temperature}
        assert preset.temperature[name] == of_adaptive
        assert preset.beta.get(name) == beta
    assert preset.vanilla.keys() == preset.temperature.keys() == VALUES.keys()
    assert PRESETS["tuned"].beta == preset.beta == {"koran": 10.0}
    assert not PRESETS["tuned"].vanilla
    assert not PRESETS["tuned"].temperature


def test_a_domain_that_the_paper_does_not_have(tmp_path: Path) -> None:
    """Is tuned."""
    write_benchmark(tmp_path, [PLAIN])
    (tmp_path / PLAIN).rename(tmp_path / "news")
    setup: Setup = setup_of(tmp_path, ["news"], preset=PRESETS["paper"])
    [domain] = setup.domains
    assert not setup.fit(domain, "vanilla").fixed
    assert setup.fit(domain, "adaptive").vanilla == setup.fit(domain, "vanilla")
    assert "beta" not in dict(setup.fit(domain, "robust").options)
