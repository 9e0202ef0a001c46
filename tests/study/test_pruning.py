"""Smaller stores: the tables against views that are made by hand, and the claims."""

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from naive_study import Rows, combiner_of, judged, store_of, translated
from tiny_study import HALVED, PLAIN, MadeUp, held, scored_pairs, setup_of
from tolerances import NLL

from knnmt.datastore.cuts import ConfidenceCut
from knnmt.methods import read_combiner
from knnmt.study.setup import Setup
from knnmt.study.steps import Fit, Mix
from knnmt.study.studies.confidence import AGAIN, FULL
from knnmt.study.studies.pruning import MASKED, METHODS, SHARES, WAYS, Pruning

PRUNING = Pruning()


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark, [PLAIN])


def rows_of(studied: Any, name: str) -> dict[str, Any]:
    shown = json.loads((studied.out / "tables" / f"{name}.json").read_text())
    return {row[0]["text"]: dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}


@pytest.mark.to_the_bit
def test_the_tables(studied: Any) -> None:
    """BLEU with the view, and figures by exhaustive search of what a ranking by hand leaves."""
    run = studied.runs[1]
    setup = run.setups["pruning"]
    domain = setup.benchmark.domains[HALVED]
    store = store_of(run.lab, setup.store(domain))
    whole = Rows.of(store)
    bleu, forced = (rows_of(studied, f"pruning-confidence-{part}{HALVED}") for part in ("", "nll-"))
    assert list(bleu) == list(forced) == ["0%", "20%", "40%", "60%", "80%"]
    sources, references = ([pair[side] for pair in scored_pairs(HALVED)] for side in (0, 1))
    memories = {0.0: setup.store(domain), 0.6: setup.view(domain, ConfidenceCut(0.0, 0.6))}
    _, masked = (PRUNING._fits(setup, domain)["confidence", 0.6, method, MASKED][0] for method in METHODS)
    for share, memory in memories.items():
        left = whole.without(0.0, share)
        view = store.view("confidence-0-60") if share else store
        row, figures = bleu[f"{share:.0%}"], forced[f"{share:.0%}"]
        assert row["entries"]["value"] == len(left)
        fits = {FULL: setup.fit(domain, "robust"), AGAIN: setup.fit(domain, "robust", memory=memory), MASKED: masked}
        for trained, fit in fits.items():
            combiner = read_combiner(combiner_of(run.lab, fit))
            expected = judged(studied.model, left, combiner, scored_pairs(HALVED))
            assert figures[f"NLL robust, {trained}"]["value"] == pytest.approx(expected.nll, abs=NLL)
            assert figures[f"accuracy robust, {trained}"]["value"] == pytest.approx(expected.accuracy)
            assert figures["token among K"]["value"] == pytest.approx(expected.gold_in_k)
            if trained != MASKED:
                score = sacrebleu.corpus_bleu(translated(studied.model, sources, view, combiner), [references]).score
                assert row[f"robust, {trained}"]["value"] == pytest.approx(score)
    assert (bleu["60%"]["robust, paper"]["value"], bleu["60%"]["adaptive, paper"]["value"]) == (45.52, 41.05)
    random = rows_of(studied, f"pruning-random-{HALVED}")
    assert [row["entries"]["value"] for row in random.values()] == [row["entries"]["value"] for row in bleu.values()]
    assert (random["80%"]["robust, paper"]["value"], random["80%"]["adaptive, paper"]["value"]) == (40.22, 39.87)


def test_a_combiner_for_masked_memories_is_trained_once(setup: Setup) -> None:
    """On the neighbours in the whole store and all its views."""
    fits = PRUNING._fits(setup, setup.domains[0])
    masked = {fit.key: fit for what, (fit, _) in fits.items() if what[3] == MASKED}
    assert len(masked) == len(METHODS)
    for fit in masked.values():
        assert isinstance(fit, Fit)
        assert isinstance(fit.features, Mix)
        assert len({part.memory.key for part in fit.features.parts}) == 1 + len(WAYS) * len(SHARES)
        assert fit.memory == setup.store(setup.domains[0])
    names = {"all": 1, "confidence-0-": len(SHARES), "random-0-": len(SHARES)}
    labels = [name for _, name in PRUNING._memories(setup, setup.domains[0]).values()]
    assert {start: len({each for each in labels if each.startswith(start)}) for start in names} == names


def gaining(random: float, confidence: float, where: str = "", share: float | None = None) -> MadeUp:
    """Robust is better by so much on pruned stores, if it was trained there; at one share only, if it is given."""

    def bleu(system: str, split: str) -> float:
        gain = random if system.startswith("random") else confidence if system.startswith("confidence") else 0.0
        at = share is None or f"-{100 * share:g}" in system.split()[0]
        return 30 + gain * ("robust" in system and where in system and at)

    return MadeUp(bleu=bleu)


@pytest.mark.parametrize("trained", [FULL, AGAIN])
@pytest.mark.parametrize("way", WAYS)
def test_robust_is_better_on_pruned_stores(setup: Setup, way: str, trained: str) -> None:
    """Two deviations of a difference are 0.37 BLEU, of the mean of four 0.185."""
    about = (f"{PLAIN}, {WAYS[way]}, {trained}: robust is better than adaptive on pruned stores",)
    for gain, expected in ((0.2, True), (-0.2, False), (0.17, None)):
        gains = (gain, 0.0) if way == "random" else (0.0, gain)
        assert held(PRUNING, setup, gaining(*gains), *about) is expected
        other = FULL if trained == AGAIN else AGAIN
        assert held(PRUNING, setup, gaining(*gains, where=other), *about) is None, "that is the other claim"
    once = gaining(4.0, 4.0, share=SHARES[-1])
    assert held(PRUNING, setup, once, *about) is True, "on average over the shares"
    assert held(PRUNING, setup, gaining(0.7, 0.7, share=SHARES[0]), *about) is None


@pytest.mark.parametrize("trained", [FULL, AGAIN])
def test_most_of_all_confidence_first(setup: Setup, trained: str) -> None:
    about = (f"{PLAIN}, {trained}: robust gains most if the highest confidence is removed first",)
    for random, confidence, expected in ((1.0, 1.3, True), (1.3, 1.0, False), (1.0, 1.2, None), (-1.0, -0.7, True)):
        assert held(PRUNING, setup, gaining(random, confidence), *about) is expected


def test_the_averages_of_the_paper(setup: Setup) -> None:
    """+1.92, +4.46, +4.47 and +2.23 highest confidence first; +0.74, +0.51, +0.45 and +0.35 at random."""
    texts = [claim.text for claim in PRUNING.section(setup, MadeUp()).claims]
    assert (
        sum("highest confidence first" in text and "(the paper: +3.27 BLEU on average)" in text for text in texts) == 2
    )
    assert sum("at random" in text and "(the paper: +0.51 BLEU on average)" in text for text in texts) == 2
