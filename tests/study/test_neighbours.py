"""The number of neighbours: its table and claims."""

import json
from pathlib import Path
from typing import Any

import pytest
from naive_study import Rows, combiner_of, judged, store_of
from tiny_study import HALVED, PLAIN, MadeUp, held, scored_pairs, setup_of
from tolerances import NLL

from knnmt.methods import read_combiner
from knnmt.study.setup import METHODS, Setup
from knnmt.study.studies.neighbours import KS, Neighbours

NEIGHBOURS = Neighbours()


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def test_the_table(studied: Any) -> None:
    run = studied.runs[1]
    setup = run.setups["k"]
    domain = setup.benchmark.domains[HALVED]
    shown = json.loads((studied.out / "tables" / f"k-{HALVED}.json").read_text())
    assert [row[0]["text"] for row in shown["rows"]] == ["4", "8", "16", "32"]
    rows = Rows.of(store_of(run.lab, setup.store(domain)))
    for k, row in zip(KS, shown["rows"], strict=True):
        cells = dict(zip(shown["columns"], row, strict=True))
        for method in METHODS:
            combiner = read_combiner(combiner_of(run.lab, setup.fit(domain, method, k=k)))
            assert combiner.k == k
            expected = judged(studied.model, rows, combiner, scored_pairs(HALVED))
            assert cells[f"NLL {method}"]["value"] == pytest.approx(expected.nll, abs=NLL)
            assert f"|k:{k}|" in cells[f"BLEU {method}"]["signature"]
    assert (studied.out / "figures" / f"k-{HALVED}.svg").is_file()


def scored(**scores: float) -> MadeUp:
    """BLEU by method and K: robust_32=31.0; 30 otherwise."""
    return MadeUp(bleu=lambda system, split: scores.get(system.replace(" K=", "_"), 30.0))


def test_a_larger_k_does_not_hurt(setup: Setup) -> None:
    """One deviation of 2,000 sentences is 0.185 BLEU."""
    about = "a larger K does not hurt robust"
    for robust, expected in ((31.0, True), (30.0, True), (29.9, True), (29.7, None), (29.5, False)):
        assert held(NEIGHBOURS, setup, scored(robust_32=robust), about) is expected
    assert held(NEIGHBOURS, setup, scored(vanilla_32=20.0, adaptive_32=20.0), about) is True


def test_robust_is_better_at_every_k(setup: Setup) -> None:
    about = "robust is better than adaptive at every K"
    better = {f"robust_{k}": 30.5 for k in KS}
    assert held(NEIGHBOURS, setup, scored(**better), about) is True
    assert held(NEIGHBOURS, setup, scored(), about) is None
    for k in KS:
        assert held(NEIGHBOURS, setup, scored(**better | {f"robust_{k}": 30.1}), about) is None
        assert held(NEIGHBOURS, setup, scored(**better | {f"robust_{k}": 29.0}), about) is False
        assert held(NEIGHBOURS, setup, scored(**{f"robust_{k}": 29.0}), about) is False, "one K is enough"


def test_most_of_all_at_a_large_k(setup: Setup) -> None:
    """The deviation of a difference of two gains is 0.26."""
    about = "robust gains more over adaptive at K = 32 than at K = 4"
    for small, large, expected in ((0.0, 0.6, True), (0.5, 0.9, None), (1.0, 0.4, False)):
        scores = {"robust_4": 30 + small, "adaptive_32": 29.0, "robust_32": 29 + large}
        assert held(NEIGHBOURS, setup, scored(**scores), about) is expected


def test_the_best_of_each_column(setup: Setup) -> None:
    """The highest BLEU and the lowest NLL."""
    results = MadeUp(
        bleu=lambda system, split: 31.0 if system.endswith("K=16") else 30.0,
        judged=lambda step: {"nll": 1.5 if step.fit.features.k == 4 else 2.0},
    )
    [table] = NEIGHBOURS.section(setup, results).tables
    best = {row.cells[0].text: [cell.best for cell in row.cells[1:]] for row in table.rows}
    assert best == {"4": [False] * 3 + [True] * 3, "8": [False] * 6, "16": [True] * 3 + [False] * 3, "32": [False] * 6}
