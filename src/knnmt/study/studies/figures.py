"""Cells, notes and verdicts that several studies show in the same way."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from knnmt.report import Cell, number
from knnmt.study.benchmark import Domain
from knnmt.study.step import Result

STRONG, WEAK = 0.01, 0.05
MARKS_NOTE = (
    "† p < 0.05, ‡ p < 0.01: significantly better than adaptive (two-sided, by 1,000 paired bootstrap resamples)."
)
PAPER_NOTE = "The paper's figures are of the WMT19 model and German IT."


@dataclass(frozen=True)
class Difference:
    """How much better something is, in BLEU, and the standard deviation of that by the bootstrap of its test set."""

    value: float
    deviation: float

    @classmethod
    def of(cls, scores: Result, weights: Mapping[str, float]) -> "Difference":
        """The sum of the scores of systems on one test set, with weights."""
        w = np.array([weights.get(name, 0.0) for name in scores["names"]])
        value = sum(weight * scores["systems"][name]["bleu"] for name, weight in weights.items())
        return cls(value, math.sqrt(max(w @ np.array(scores["bleu_covariance"]) @ w, 0.0)))

    @classmethod
    def average(cls, parts: Sequence["Difference"]) -> "Difference":
        """The mean of differences on different test sets."""
        return cls(fmean(each.value for each in parts), math.hypot(*(each.deviation for each in parts)) / len(parts))

    def __sub__(self, other: "Difference") -> "Difference":
        """Its distance from a difference on another test set."""
        return Difference(self.value - other.value, math.hypot(self.deviation, other.deviation))

    @property
    def is_positive(self) -> bool | None:
        """None if it is within two deviations of 0, so that nobody can tell."""
        return None if abs(self.value) <= 2 * self.deviation else self.value > 0

    @property
    def is_no_loss(self) -> bool | None:
        """None if one to two deviations are lost."""
        return None if -2 * self.deviation <= self.value < -self.deviation else self.value >= -self.deviation

    def __str__(self) -> str:
        return f"{self.value:+.2f} ± {self.deviation:.2f}"


def gain(scores: Result, better: str, worse: str) -> Difference:
    """How much better one system is than another on the same test set."""
    weights = Counter({better: 1})
    weights[worse] -= 1
    return Difference.of(scores, weights)


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


def over_seeds(found: Sequence[Result], name: str, spec: str) -> Cell:
    """The mean of a figure over the seeds of a system, and its deviation if there are several."""
    values = [each[name] for each in found]
    record: dict[str, Any] = {"values": values, "versions": found[0]["versions"]}
    for name in ("signature", "seed"):
        record[f"{name}s"] = [each[name] for each in found]
    cell = number(fmean(values), spec, record=record)
    if len(values) == 1:
        return cell
    return Cell(f"{cell.text} ± {stdev(values):{spec}}", cell.value, record=record | {"deviation": stdev(values)})


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
