"""What each part is worth: the table and its claims."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from naive_study import Rows, combiner_of, judged, store_of
from tiny_study import HALVED, PLAIN, MadeUp, held, scored_pairs, setup_of
from tolerances import NLL

from knnmt.methods import Robust, read_combiner
from knnmt.study.setup import Setup
from knnmt.study.steps import Fit, Judge
from knnmt.study.studies.ablation import ROWS, Ablation

ABLATION = Ablation()
PARTS = ("wp", "dc", "vector-perturbation", "pseudo-pairs", "robust-training", "decline")


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def test_rows_leave_out_what_they_say(setup: Setup) -> None:
    """In the order of the paper, with another seed each time."""
    fits = ABLATION._fits(setup, setup.domains[0])
    assert list(fits) == list(ROWS) == ["vanilla", "adaptive", "", *PARTS]
    for name, of_row in fits.items():
        options = [dict(fit.options) for fit in of_row]
        method = name if name in ("vanilla", "adaptive") else "robust"
        assert {fit.method for fit in of_row} == {method}
        assert [each.get("without", ()) for each in options] == [(name,) if name in PARTS else ()] * len(of_row)
        assert [fit.seed for fit in of_row] == ([1] if name == "vanilla" else [1, 2])
    first = fits[""][0]
    assert first == setup.fit(setup.domains[0], "robust"), "the one that other studies use"


def test_the_table(studied: Any) -> None:
    """Mean and deviation over the seeds, by exhaustive search."""
    run = studied.runs[1]
    setup = run.setups["ablation"]
    domain = setup.benchmark.domains[HALVED]
    rows = Rows.of(store_of(run.lab, setup.store(domain)))
    shown = json.loads((studied.out / "tables" / f"ablation-{HALVED}.json").read_text())
    assert [row[0]["text"] for row in shown["rows"]] == list(ROWS.values())
    whole = 0.0
    for (name, fits), row in zip(ABLATION._fits(setup, domain).items(), shown["rows"], strict=True):
        combiners = [read_combiner(combiner_of(run.lab, fit)) for fit in fits]
        if name in ("wp", "dc"):
            assert all(isinstance(each, Robust) and each.without == (name,) for each in combiners)
        expected = [judged(studied.model, rows, each, scored_pairs(HALVED)) for each in combiners]
        nll = [each.nll for each in expected]
        cells = dict(zip(shown["columns"], row, strict=True))
        assert cells["NLL"]["values"] == pytest.approx(nll, abs=NLL)
        assert cells["NLL"]["value"] == pytest.approx(fmean(nll), abs=NLL)
        assert cells["accuracy"]["value"] == pytest.approx(fmean(each.accuracy for each in expected))
        bleu = cells["BLEU"]
        assert bleu["seeds"] == [fit.seed for fit in fits]
        assert len(set(bleu["signatures"])) >= 1
        if len(fits) > 1:
            assert bleu["deviation"] == pytest.approx(stdev(bleu["values"]))
            assert bleu["text"] == f"{fmean(bleu['values']):.2f} ± {stdev(bleu['values']):.2f}"
        if name == "":
            whole = cells["NLL"]["value"]
        elif name in PARTS:
            assert cells["NLL − robust's"]["value"] == pytest.approx(cells["NLL"]["value"] - whole)
    assert [row[-1]["value"] for row in shown["rows"]] == [
        45.92,
        47.88,
        48.90,
        48.36,
        48.45,
        48.77,
        48.75,
        48.68,
        48.38,
    ]


def part_of(fit: Fit) -> str:
    options = dict(fit.options)
    return fit.method if fit.method != "robust" else "".join(options.get("without", ()))


def losing(**losses: float) -> MadeUp:
    """NLL by the part that is left out (with _ for -), each ± .01 with two seeds: twice the error is .02 nats."""

    def judged(step: Judge) -> dict[str, Any]:
        loss = losses.get(part_of(step.fit).replace("-", "_"), 0.0)
        return {"nll": 2.0 + loss + (0.01 if step.fit.seed == 1 else -0.01)}

    return MadeUp(judged=judged)


EVERY = dict.fromkeys((part.replace("-", "_") for part in PARTS), 0.1)


def test_every_part_costs_something(setup: Setup) -> None:
    about = "every part that is left out costs something"
    assert held(ABLATION, setup, losing(**EVERY), about) is True
    assert held(ABLATION, setup, losing(**EVERY, vanilla=-1.0, adaptive=-1.0), about) is True
    for part in EVERY:
        assert held(ABLATION, setup, losing(**EVERY | {part: 0.015}), about) is None
        assert held(ABLATION, setup, losing(**EVERY | {part: -0.1}), about) is False
        assert held(ABLATION, setup, losing(**{part: -0.1}), about) is False, "whatever the others do"


@pytest.mark.parametrize(
    ("about", "more", "less"),
    [
        ("the WP network is worth more than the DC network", "wp", "dc"),
        ("pseudo pairs are worth more than noise on the keys", "pseudo_pairs", "vector_perturbation"),
        ("a ratio that does not decline is worse than no robust training", "decline", "robust_training"),
    ],
)
def test_which_part_is_worth_more(setup: Setup, about: str, more: str, less: str) -> None:
    """The one without which the NLL is higher."""
    assert held(ABLATION, setup, losing(**EVERY | {more: 0.2}), about) is True
    assert held(ABLATION, setup, losing(**EVERY | {less: 0.2}), about) is False
    assert held(ABLATION, setup, losing(**EVERY | {more: 0.11}), about) is None


def test_one_seed_decides_nothing(benchmark: Path) -> None:
    setup = setup_of(benchmark, [PLAIN])
    once = Setup(setup.benchmark, setup.model, setup.decoding, setup.preset, {PLAIN: 1})
    claims = ABLATION.section(once, losing(**EVERY | {"wp": 0.3, "decline": -0.2})).claims
    assert [claim.held for claim in claims] == [None] * 4
