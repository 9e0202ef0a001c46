"""Cells, notes and verdicts that several studies show in the same way."""

import math
from collections.abc import Iterable
from typing import Any

from knnmt.report import Cell, number
from knnmt.study.benchmark import Domain
from knnmt.study.step import Result

_DEVIATION = 0.37 * math.sqrt(500)  # of a BLEU difference of two such systems, times √sentences
STRONG, WEAK = 0.01, 0.05
MARKS_NOTE = (
    "† p < 0.05, ‡ p < 0.01: significantly better than adaptive (two-sided, by 1,000 paired bootstrap resamples)."
)
PAPER_NOTE = "The paper's figures are of the WMT19 model and German IT."


def bleu_deviation(sentences: int) -> float:
    """The standard deviation of a difference in BLEU between two kNN-MT systems on that many sentences."""
    return _DEVIATION / math.sqrt(max(sentences, 1))


def verdict(difference: float, deviation: float) -> bool | None:
    """Whether a difference that a claim expects above 0 is there: None if it is within two deviations."""
    return None if abs(difference) < 2 * deviation else difference > 0


def all_held(verdicts: Iterable[bool | None]) -> bool | None:
    """Of a claim with several parts: it fails if one of them does, and is undecided if one of the others is."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def mark(score: dict[str, Any], baseline: dict[str, Any]) -> str:
    """† or ‡ where a system is significantly better than the baseline."""
    p = score["bleu_p"]
    if p is None or score["bleu"] <= baseline["bleu"] or p >= WEAK:
        return ""
    return "‡" if p < STRONG else "†"


def bleu_cell(score: dict[str, Any], **more: Any) -> Cell:
    """BLEU, with its interval on hover and its signature in JSON."""
    low, high = score["bleu_ci"]
    names = ("signature", "seed", "processors", "versions", "brevity_penalty")
    record = {"ci": score["bleu_ci"], "p": score["bleu_p"]} | {name: score[name] for name in names}
    return number(score["bleu"], note=f"95% interval {low:.1f}–{high:.1f}", record=record, **more)


def figure_cell(result: Result, name: str, spec: str = ".3f", **more: Any) -> Cell:
    """A teacher-forced figure of a combiner, such as its NLL."""
    names = ("signature", "seed", "processor", "versions")
    record: dict[str, Any] = {each: result[each] for each in names if each in result}
    return number(result[name], spec, record=record, **more)


def sentences_note(domain: Domain) -> str:
    """What was translated."""
    count = len(domain.test)
    part = "second half" if domain.halved else "test set"
    scored, verb = f"the {part} ({count:,} sentences)", "scores"
    if count < domain.test_lines:
        scored, verb = f"the first {count:,} of {domain.test_lines:,} sentences of the {part}", "score"
    if domain.halved:
        return f"{domain.name} has no test set: the first half of dev ({len(domain.dev):,}) fits, {scored} {verb}."
    return f"{domain.name}: {scored}."


def processors_note(results: Iterable[Result]) -> str:
    """The processors that computed the results."""
    names = sorted({result["processor"] for result in results})
    return f"Processor: {'; '.join(names)}."
