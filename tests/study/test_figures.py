"""Verdicts, marks and notes that several studies share."""

import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sacrebleu import BLEU
from sacrebleu.significance import PairedTest, Result
from sentences import SENTENCES
from tiny_study import DOMAINS, GZIPPED, HALVED, PLAIN, setup_of, write_pairs

from knnmt.evaluation import score_systems
from knnmt.study import Benchmark
from knnmt.study.steps import Compare, System, Translate
from knnmt.study.steps import translate as steps
from knnmt.study.studies.figures import (
    Difference,
    all_held,
    bleu_cell,
    figure_cell,
    gain,
    mark,
    processors_note,
    sentences_note,
)

SCORES = {
    "systems": {"a": {"bleu": 31.0}, "b": {"bleu": 30.0}, "c": {"bleu": 20.0}},
    "names": ["c", "a", "b"],
    "bleu_covariance": [[4.0, 1.0, 0.5], [1.0, 2.0, 1.5], [0.5, 1.5, 3.0]],
}


def test_differences_of_systems() -> None:
    """The variance of a − b is that of a, plus that of b, minus twice their covariance."""
    assert gain(SCORES, "a", "b").value == 1.0
    assert gain(SCORES, "a", "b").deviation == pytest.approx((2 + 3 - 2 * 1.5) ** 0.5)
    weighted = Difference.of(SCORES, {"a": 1.0, "b": -0.5, "c": -0.5})
    assert weighted.value == 6.0
    assert weighted.deviation == pytest.approx((2 + 0.25 * 3 + 0.25 * 4 - 1.5 - 1.0 + 0.5 * 0.5) ** 0.5)
    assert gain(SCORES, "a", "a") == Difference(0.0, 0.0)
    assert str(gain(SCORES, "b", "a")) == "-1.00 ± 1.41"


def test_differences_on_several_test_sets() -> None:
    parts = [Difference(1.0, 0.3), Difference(2.0, 0.4)]
    average, distance = Difference.average(parts), parts[1] - parts[0]
    assert (average.value, average.deviation) == pytest.approx((1.5, 0.25))
    assert (distance.value, distance.deviation) == pytest.approx((1.0, 0.5))


@pytest.mark.parametrize(
    ("difference", "positive", "no_loss"),
    [
        (0.41, True, True),
        (0.39, None, True),
        (0.0, None, True),
        (-0.19, None, True),
        (-0.21, None, None),
        (-0.39, None, None),
        (-0.41, False, False),
    ],
)
def test_verdicts(difference: float, positive: bool | None, no_loss: bool | None) -> None:
    found = Difference(difference, 0.2)
    assert (found.is_positive, found.is_no_loss) == (positive, no_loss)


def test_equal_translations_are_undecided() -> None:
    assert Difference(0.0, 0.0).is_positive is None
    assert Difference(0.0, 0.0).is_no_loss is True


@pytest.mark.parametrize(
    ("parts", "held"),
    [
        ([True, True], True),
        ([True, None], None),
        ([None, None], None),
        ([True, False], False),
        ([None, False], False),
        ([False], False),
    ],
)
def test_claims_with_several_parts(parts: list[bool | None], held: bool | None) -> None:
    assert all_held(parts) is held


@pytest.mark.parametrize(
    ("bleu", "p", "expected"),
    [
        (31.0, 0.2, ""),
        (31.0, 0.05, ""),
        (31.0, 0.049, "†"),
        (31.0, 0.01, "†"),
        (31.0, 0.009, "‡"),
        (29.0, 0.001, ""),
        (30.0, 0.001, ""),
        (31.0, None, ""),
    ],
)
def test_marks(bleu: float, p: float | None, expected: str) -> None:
    """Only what is significantly better, not worse."""
    assert mark({"bleu": bleu, "bleu_p": p}, {"bleu": 30.0, "bleu_p": None}) == expected


def garbled(share: float, seed: int, sentences: list[str]) -> list[str]:
    """Each word is lost with this probability."""
    rng = random.Random(seed)
    return [" ".join(w if rng.random() > share else "x" for w in line.split()) for line in sentences]


def test_significance_is_that_of_sacrebleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From translations to marks, with the paper's 1,000 resamples."""
    monkeypatch.setattr(steps, "score_systems", score_systems)
    write_pairs(tmp_path / PLAIN, "train", SENTENCES)
    write_pairs(tmp_path / PLAIN, "dev", SENTENCES)
    write_pairs(tmp_path / PLAIN, "test", SENTENCES)
    setup = setup_of(tmp_path, [PLAIN])
    references = [target for _, target in SENTENCES]
    shares = {"adaptive": 0.3, "base": 0.5, "same": 0.3, "little": 0.27, "more": 0.2, "best": 0.05}
    hypotheses = {name: garbled(share, 3, references) for name, share in shares.items()}
    whole = Translate(setup.model, setup.domains[0].test, setup.decoding)
    split = setup.domains[0].test
    systems = tuple(System(name, (Translate(setup.model, split, name),)) for name in hypotheses)
    assert whole.split == split
    about = {"cpu_seconds": 1.0, "signature": "s", "processor": "p", "versions": {}}
    lab: Any = SimpleNamespace(result=lambda step: about | {"translations": hypotheses[step.decoding]})
    scores = Compare(systems, split, "adaptive").run(lab)
    assert scores["sentences"] == len(references)

    order = sorted(hypotheses, key=lambda name: name != "adaptive")
    named: list[tuple[str, Sequence[str]]] = [(name, hypotheses[name]) for name in order]
    _, table = PairedTest(
        named, {"bleu": BLEU(references=[references])}, references=None, test_type="bs", n_samples=1000, n_jobs=1
    )()
    expected = dict(zip([name for name, _ in named], table["BLEU"], strict=True))
    marks = {}
    for name, score in scores["systems"].items():
        result = expected[name]
        assert isinstance(result, Result)
        assert score["bleu"] == result.score
        assert result.mean is not None
        assert result.ci is not None
        assert score["bleu_ci"] == pytest.approx([result.mean - result.ci, result.mean + result.ci])
        marks[name] = mark(score, scores["systems"]["adaptive"])
        if name not in ("adaptive", "same"):
            assert score["bleu_p"] == result.p_value
            better = result.score > scores["systems"]["adaptive"]["bleu"]
            p = result.p_value
            assert p is not None
            assert marks[name] == ("" if not better or p >= 0.05 else "†" if p >= 0.01 else "‡")
    assert scores["systems"]["adaptive"]["bleu_p"] is None
    assert scores["systems"]["same"]["bleu_p"] == 1.0
    assert marks["best"] == "‡"
    assert marks["base"] == marks["same"] == marks["adaptive"] == ""
    assert scores["systems"]["base"]["bleu_p"] < 0.01, "significantly worse"
    assert "†" in marks.values()


def test_cells() -> None:
    score = {
        "bleu": 38.914,
        "bleu_ci": [37.04, 40.66],
        "bleu_p": 0.004,
        "brevity_penalty": 0.98,
        "signature": "method:robust|beam:4",
        "seed": 1,
        "processors": ["a pencil"],
        "versions": {"knnmt": "0"},
    }
    cell = bleu_cell(score, mark="‡")
    assert (cell.text, cell.value, cell.note) == ("38.91‡", 38.914, "95% interval 37.0–40.7")
    assert cell.record["signature"] == "method:robust|beam:4"
    assert (cell.record["p"], cell.record["ci"], cell.record["processors"]) == (0.004, [37.04, 40.66], ["a pencil"])
    figure = figure_cell({"nll": 2.3456, "processor": "a pencil", "versions": {}}, "nll", ".4f")
    assert (figure.text, figure.value, figure.record["processor"]) == ("2.3456", 2.3456, "a pencil")


def test_notes(benchmark: Path) -> None:
    domains = Benchmark.open(benchmark, ("de", "en")).domains
    assert set(domains) == set(DOMAINS)
    assert sentences_note(domains[PLAIN]) == "koran: the test set (3 sentences)."
    assert sentences_note(domains[GZIPPED].limited(2)) == "law: the first 2 of 3 sentences of the test set."
    halved = "it has no test set: the first half of dev (3) fits, "
    assert sentences_note(domains[HALVED]) == f"{halved}the second half (3 sentences) scores."
    limited = f"{halved}the first 2 of 3 sentences of the second half score."
    assert sentences_note(domains[HALVED].limited(2)) == limited


def test_the_processors_of_a_table() -> None:
    found = [{"processor": name} for name in ("b", "a", "b")]
    assert processors_note(found) == "Processor: a; b."
