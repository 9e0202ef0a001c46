"""Exact and quantised distances."""

import json
from pathlib import Path
from typing import Any

import pytest
from naive_study import combiner_of, store_of
from tiny_study import HALVED, PLAIN, MadeUp, held, setup_of
from tolerances import NLL

from knnmt.combiner import Needs
from knnmt.methods import read_combiner
from knnmt.model import TorchEngine
from knnmt.search import Searcher
from knnmt.study.setup import Setup
from knnmt.study.steps import Judge
from knnmt.study.studies.quantised import METHODS, Quantised
from knnmt.training import collect_features

QUANTISED = Quantised()


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def test_the_table(studied: Any) -> None:
    """Both kinds of distances, of the same index and the same neighbours."""
    run = studied.runs[1]
    setup = run.setups["quantised"]
    domain = setup.benchmark.domains[HALVED]
    shown = json.loads((studied.out / "tables" / f"quantised-{HALVED}.json").read_text())
    view = store_of(run.lab, setup.store(domain)).view("ivfpq")
    assert view.entry_count == store_of(run.lab, setup.store(domain)).entry_count, "nothing is left out"
    found = {
        distances: collect_features(
            TorchEngine(studied.model), Searcher(view, distances=distances), domain.test.pairs, Needs(8, top=8)
        )
        for distances in ("code", "exact")
    }
    assert (found["code"].observation.distances != found["exact"].observation.distances).any()
    fits = QUANTISED._fits(setup, domain)
    for method, row in zip(METHODS, shown["rows"], strict=True):
        assert row[0]["text"] == method
        cells = dict(zip(shown["columns"], row, strict=True))
        for distances, words in (("code", "of the codes"), ("exact", "exact")):
            combiner = read_combiner(combiner_of(run.lab, fits[method, distances]))
            nll, _ = found[distances].judge(combiner)
            assert cells[f"NLL, {words}"]["value"] == pytest.approx(nll, abs=NLL)
            assert f"|index:{Searcher(view, distances=distances).description}" in cells[f"BLEU, {words}"]["signature"]
    assert any(note.startswith("Index ") and " probes, recall@8 " in note for note in shown["notes"])


def test_the_claim(setup: Setup) -> None:
    """The gain as released: adaptive with the codes' distances, robust with exact ones."""

    def results(code: float, exact: float) -> MadeUp:
        def judged(step: Judge) -> dict[str, Any]:
            nll = code if step.features.distances == "code" else exact
            return {"nll": nll if step.fit.method == "adaptive" else 2.0}

        return MadeUp(judged=judged)

    for code, exact, expected in ((2.03, 2.01, True), (2.01, 2.03, False), (2.031, 2.03, None)):
        assert held(QUANTISED, setup, results(code, exact), "robust's gain over adaptive") is expected
    [claim] = QUANTISED.section(setup, results(2.03, 2.01)).claims
    assert "0.0100 with exact distances for both, 0.0300 as released" in claim.evidence
