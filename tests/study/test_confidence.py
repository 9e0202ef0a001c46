"""The preliminary study: what its views hide, and its claims."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from naive_study import Rows, combiner_of, store_of, translated
from tiny_study import HALVED, PLAIN, MadeUp, held, scored_pairs, setup_of

from knnmt.methods import read_combiner
from knnmt.study.setup import METHODS, Setup
from knnmt.study.studies.confidence import AGAIN, CUTS, FULL, Confidence

CONFIDENCE = Confidence()
SHARES = {
    "[0%, 20%)": (0.0, 0.2),
    "[20%, 40%)": (0.2, 0.4),
    "[40%, 60%)": (0.4, 0.6),
    "[60%, 80%)": (0.6, 0.8),
    "[80%, 100%]": (0.8, 1.0),
}


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def test_entries_that_are_removed(studied: Any) -> None:
    """Each interval takes away what a ranking by hand says; all of them together everything, once."""
    run = studied.runs[1]
    setup = run.setups["confidence"]
    domain = setup.benchmark.domains[HALVED]
    store = store_of(run.lab, setup.store(domain))
    whole = Rows.of(store)
    assert list(CUTS) == ["random", *SHARES]
    gone = np.zeros(len(whole), dtype=int)
    for name, (first, last) in SHARES.items():
        view = store.view(setup.view(domain, CUTS[name]).name)
        expected = whole.without(first, last)
        live = np.concatenate([view.entries.mask[segment.name] for segment in view.segments])
        gone += ~live
        assert view.entry_count == len(expected) == live.sum()
        assert np.array_equal(whole.values[live], expected.values)
        assert np.array_equal(whole.keys[live], expected.keys)
        removed, kept = whole.confidence[~live], expected.confidence
        sorted_down = np.sort(whole.confidence.numpy())[::-1]
        assert np.array_equal(np.sort(removed)[::-1], sorted_down[round(first * len(live)) : round(last * len(live))])
        assert len(removed) + len(kept) == len(whole)
    assert set(gone) == {1}
    view = store.view(setup.view(domain, CUTS["random"]).name)
    assert view.entry_count == len(whole) - round(0.2 * len(whole))


@pytest.mark.to_the_bit
def test_the_table(studied: Any) -> None:
    """BLEU of each view with the combiner of the whole store, and with the one that was trained on it."""
    run = studied.runs[1]
    setup = run.setups["confidence"]
    domain = setup.benchmark.domains[HALVED]
    shown = json.loads((studied.out / "tables" / f"confidence-{HALVED}.json").read_text())
    rows = {row[0]["text"]: dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}
    assert list(rows) == ["all", *(f"− {name}" for name in CUTS)]
    store = store_of(run.lab, setup.store(domain))
    sources, references = ([pair[side] for pair in scored_pairs(HALVED)] for side in (0, 1))
    for name in ("[0%, 20%)", "[80%, 100%]"):
        step = setup.view(domain, CUTS[name])
        view = store.view(step.name)
        row = rows[f"− {name}"]
        assert row["entries"]["value"] == view.entry_count
        for method, trained in ((method, trained) for method in METHODS for trained in (FULL, AGAIN)):
            if (method, trained) == ("vanilla", AGAIN):
                continue
            fit = setup.fit(domain, method, memory=step if trained == AGAIN else None)
            combiner = read_combiner(combiner_of(run.lab, fit))
            expected = sacrebleu.corpus_bleu(translated(studied.model, sources, view, combiner), [references]).score
            cell = row[method if method == "vanilla" else f"{method}, {trained}"]
            assert cell["value"] == pytest.approx(expected)
            assert f"store:{view.fingerprint[:8]}" in cell["signature"]
    assert rows["− [40%, 60%)"]["adaptive, paper"]["value"] == 46.18
    for trained in (FULL, AGAIN):
        assert rows["all"][f"robust, {trained}"]["signature"].endswith(f"store:{store.fingerprint[:8]}")


def test_the_figures_of_the_paper_are_of_it(setup: Setup) -> None:
    [table] = CONFIDENCE.section(setup, MadeUp()).tables
    assert not [column for column in table.columns if "paper" in column]


@pytest.mark.parametrize(
    ("claim", "part"), [("most confident", "[0%, 20%)"), ("least confident", "[80%, 100%]")], ids=["most", "least"]
)
def test_claims(setup: Setup, claim: str, part: str) -> None:
    """It hurts more if what is left is worse than after removing as many at random."""

    def results(loss: float, spare: str = "nothing") -> MadeUp:
        def bleu(system: str, split: str) -> float:
            return 30 - loss * (system.startswith(part) and not system.endswith(spare))

        return MadeUp(bleu=bleu)

    about = (f"20% {claim}", "hurts more than removing 20% at random", PLAIN)
    for loss, expected in ((0.4, True), (-0.4, False), (0.3, None), (-0.3, None)):
        assert held(CONFIDENCE, setup, results(loss), *about) is expected
    assert held(CONFIDENCE, setup, results(2.0, f"adaptive {AGAIN}"), *about) is None, "not for all methods"
    evidence = [each.evidence for each in CONFIDENCE.section(setup, results(2.0)).claims if claim in each.text]
    losses = [
        f"{system} +2.00 ± 0.18"
        for system in ("vanilla (as trained)", "adaptive (as trained)", "adaptive (trained again)")
    ]
    assert evidence == [f"BLEU random − {part}: {', '.join(losses)}."]
