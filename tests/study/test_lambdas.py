"""λ by the model's confidence: the curves, and what is claimed about them."""

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from naive_study import Rows, combiner_of, judged, store_of
from tiny_study import DOMAINS, PLAIN, MadeUp, curve, held, scored_pairs, setup_of
from tolerances import TRUST

from knnmt.methods import read_combiner
from knnmt.study.setup import Setup
from knnmt.study.steps import Judge
from knnmt.study.studies.lambdas import METHODS, Lambdas

LAMBDAS = Lambdas()
FLAT = (0.2,) * 5


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def test_the_table_agrees_with_loops(studied: Any) -> None:
    run = studied.runs[0]
    setup = run.setups["lambda"]
    for name, domain in setup.benchmark.domains.items():
        shown = json.loads((studied.out / "tables" / f"lambda-{name}.json").read_text())
        rows = Rows.of(store_of(run.lab, setup.store(domain)))
        for method in METHODS:
            combiner = read_combiner(combiner_of(run.lab, setup.fit(domain, method)))
            groups: dict[tuple[int, bool], list[float]] = defaultdict(list)
            for log_p, found, lam in judged(studied.model, rows, combiner, scored_pairs(name)).lambdas:
                groups[min(int(math.exp(log_p) * 5), 4), found].append(lam)
            for interval, row in enumerate(shown["rows"]):
                cells = dict(zip(shown["columns"], row, strict=True))
                hit, miss = groups[interval, True], groups[interval, False]
                assert cells["tokens"]["value"] == len(hit) + len(miss)
                share = len(miss) / (len(hit) + len(miss)) if hit or miss else None
                assert cells["missed"]["value"] == (None if share is None else pytest.approx(share))
                for what, lams in (("retrieved", hit), ("missed", miss)):
                    mean = pytest.approx(sum(lams) / len(lams), abs=TRUST) if lams else None
                    assert cells[f"λ {method}, {what}"]["value"] == mean
        assert [row[0]["text"] for row in shown["rows"]][::4] == ["[0.0, 0.2)", "[0.8, 1.0]"]
        assert (studied.out / "figures" / f"lambda-{name}.svg").is_file()


def curves(adaptive: Any = None, robust: Any = None) -> MadeUp:
    """Each by keywords of `curve`: `retrieved` and `missed`, by ascending confidence."""
    asked = {"adaptive": adaptive or {}, "robust": robust or {}}
    return MadeUp(judged=lambda step: {"curve": curve(**asked[step.fit.method])})


def falling(first: float, last: float) -> dict[str, tuple[float, ...]]:
    return {"missed": tuple(first + (last - first) * step / 4 for step in range(5))}


def test_robust_falls_with_confidence(setup: Setup) -> None:
    about = "λ of robust falls with the model's confidence"
    for last, expected in ((0.2, True), (0.8, False), (0.51, None)):
        assert held(LAMBDAS, setup, curves(robust=falling(0.5, last)), about) is expected
    assert held(LAMBDAS, setup, curves(adaptive=falling(0.5, 0.1)), about) is None, "adaptive's does not matter"


def test_adaptive_hardly_depends_on_confidence(setup: Setup) -> None:
    """At most half as much as robust, in whatever direction each goes."""
    about = "λ of adaptive hardly depends on the model's confidence"
    for change, expected in ((0.0, True), (0.1, True), (-0.1, True), (0.25, False), (-0.25, False), (0.19, None)):
        for robust in (0.4, -0.4):
            results = curves(adaptive=falling(0.5, 0.5 + change), robust=falling(0.5, 0.5 + robust))
            assert held(LAMBDAS, setup, results, about) is expected


def test_where_the_model_is_wrong_and_the_token_is_retrieved(setup: Setup) -> None:
    about = ("where the model is wrong (p < 0.2) and the token is retrieved", "λ of robust is the larger")
    for robust, expected in ((0.7, True), (0.3, False), (0.51, None)):
        results = curves({"retrieved": (0.5, 0.1, 0.1, 0.1, 0.9)}, {"retrieved": (robust, 0.1, 0.1, 0.1, 0.1)})
        assert held(LAMBDAS, setup, results, *about) is expected


def test_where_the_model_is_right_and_the_token_is_missed(setup: Setup) -> None:
    about = ("where the model is right (p ≥ 0.8) and the token is missed", "λ of robust is the smaller")
    for robust, expected in ((0.1, True), (0.5, False), (0.31, None)):
        results = curves({"missed": (0.1, 0.1, 0.1, 0.1, 0.3)}, {"missed": (0.1, 0.1, 0.1, 0.1, robust)})
        assert held(LAMBDAS, setup, results, *about) is expected


def test_an_empty_interval_takes_away_claims_and_nothing_else(setup: Setup) -> None:
    results = curves(robust={"missed": (0.5, 0.4, None, 0.2, 0.1)}, adaptive={"missed": (0.5, 0.4, None, 0.2, 0.1)})
    section = LAMBDAS.section(setup, results)
    assert section.claims == []
    [table] = section.tables
    assert [cell.text for cell in table.rows[2].cells[5:]] == ["–", "–"]
    assert table.rows[2].cells[2].text == "0.0%"


def test_every_claim_is_tried(benchmark: Path) -> None:
    claims = LAMBDAS.section(setup_of(benchmark), curves()).claims
    assert len(claims) == 4 * len(DOMAINS)
    assert all(isinstance(step, Judge) for step in LAMBDAS.steps(setup_of(benchmark)))
