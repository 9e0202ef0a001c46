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
    all_held,
    bleu_cell,
    bleu_deviation,
    figure_cell,
    mark,
    processors_note,
    sentences_note,
    verdict,
)


def test_the_deviation_of_a_difference() -> None:
    """The measured ones: .37 at 500 sentences, .18 at 2,000."""
    assert bleu_deviation(500) == pytest.approx(0.37)
    assert bleu_deviation(2000) == pytest.approx(0.185)
    assert bleu_deviation(0) == bleu_deviation(1)


@pytest.mark.parametrize(
    ("difference", "held"), [(0.41, True), (-0.41, False), (0.39, None), (-0.39, None), (0.0, None), (9.0, True)]
)
def test_verdicts(difference: float, held: bool | None) -> None:
    assert verdict(difference, 0.2) is held


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
