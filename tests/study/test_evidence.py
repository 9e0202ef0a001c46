"""The study of evidence: its systems, tables and claim."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from tiny_study import HALVED, PLAIN, MadeUp, held, setup_of

from knnmt.combiner import CONTEXT
from knnmt.methods import read_combiner
from knnmt.study.steps import CollectContext, Fit, Judge
from knnmt.study.studies.evidence import Evidence

EVIDENCE = Evidence()
SYSTEMS = ["robust", "robust, K = 32", "evidence"]
PARTS = ["without prefix", "without source", "without continuation", "evidence without context"]


def test_systems_are_what_they_say(benchmark: Path) -> None:
    setup = setup_of(benchmark, [PLAIN])
    (domain,) = setup.domains
    fits = EVIDENCE._fits(setup, domain)
    assert list(fits) == SYSTEMS + PARTS
    for name, of_system in fits.items():
        options = [dict(fit.options) for fit in of_system]
        assert {fit.method for fit in of_system} == {"robust" if name.startswith("robust") else "evidence"}
        assert [each["k"] for each in options] == [8 if name == "robust" else 32] * len(of_system)
        assert [fit.seed for fit in of_system] == [1, 2]
        left_out = set(CONTEXT) if name == PARTS[-1] else {name.removeprefix("without ")} & set(CONTEXT)
        assert set(options[0].get("without", ())) == left_out
        assert all(isinstance(fit.features, CollectContext) == (fit.method == "evidence") for fit in of_system)
    assert fits["robust"][0] == setup.fit(domain, "robust"), "the one that other studies use"
    judge = setup.judge(domain, fits["evidence"][0])
    assert isinstance(judge.features, CollectContext)


def test_the_tables(studied: Any) -> None:
    run = studied.runs[1]
    setup = run.setups["evidence"]
    domain = setup.benchmark.domains[HALVED]
    tables = studied.out / "tables"
    bleu, forced, parts = (
        json.loads((tables / f"evidence-{name}.json").read_text()) for name in ("bleu", "nll", "parts")
    )
    assert [row[0]["text"] for row in bleu["rows"]] == ["base", *SYSTEMS[:2], PARTS[-1], "evidence"]
    assert [row[1]["text"] for row in forced["rows"]] == [*SYSTEMS[:2], PARTS[-1], "evidence"]
    assert [row[1]["text"] for row in parts["rows"]] == ["evidence", *PARTS]
    fits = EVIDENCE._fits(setup, domain)
    whole = 0.0
    for row in parts["rows"]:
        cells = dict(zip(parts["columns"], row, strict=True))
        of_system = fits[row[1]["text"]]
        nll = [setup.judge(domain, fit).features.load(run.lab).judge(fit.load(run.lab))[0] for fit in of_system]
        assert cells["NLL"]["values"] == pytest.approx(nll)
        assert cells["NLL"]["deviation"] == pytest.approx(stdev(nll))
        whole = whole or fmean(nll)
        if row[1]["text"] != "evidence":
            assert cells["NLL − evidence's"]["value"] == pytest.approx(fmean(nll) - whole)
    without = read_combiner(run.lab.work.directory(fits["without source"][0]) / "combiner")
    assert without.needs.context == {"prefix", "continuation"}


def test_it_is_better_if_it_is(benchmark: Path) -> None:
    setup = setup_of(benchmark, [HALVED, PLAIN])
    about = "evidence is better than robust"

    def scores(**bleu: float) -> MadeUp:
        return MadeUp(bleu=lambda system, split: bleu.get(system, 30.0), p=0.01)

    assert held(EVIDENCE, setup, scores(evidence=31.0), about) is True
    assert held(EVIDENCE, setup, scores(evidence=29.0), about) is False
    assert held(EVIDENCE, setup, scores(evidence=30.1), about) is None
    [claim] = EVIDENCE.section(setup, scores(evidence=31.0)).claims
    assert f"significant on {HALVED}, {PLAIN}" in claim.evidence
    table = EVIDENCE.section(setup, scores(evidence=31.0)).tables[0]
    assert [cell.mark for cell in table.rows[-1].cells[1:3]] == ["†", "†"]
    assert {cell.mark for row in table.rows[:-1] for cell in row.cells} == {""}


def test_deviations_are_between_seeds(benchmark: Path) -> None:
    setup = setup_of(benchmark, [PLAIN])

    def judged(step: Judge) -> dict[str, Any]:
        assert isinstance(step.fit, Fit)
        return {"nll": 2.0 + 0.1 * step.fit.seed}

    table = EVIDENCE.section(setup, MadeUp(judged=judged)).tables[1]
    assert {row.cells[2].text for row in table.rows} == {"2.1500 ± 0.0707"}
