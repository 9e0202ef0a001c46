"""The evidence method beside robust, and what each part of the context is worth to it."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from knnmt.combiner import CONTEXT
from knnmt.report import Cell, Claim, Row, Section, Table, bold_best, number, percent, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import EVIDENCE_K, Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit
from knnmt.study.studies.figures import (
    WEAK,
    Difference,
    bleu_cell,
    gain,
    mark,
    over_seeds,
    processors_note,
    sentences_note,
)
from knnmt.study.studies.study import Results, Study

_WIDE, _PLAIN = f"robust, K = {EVIDENCE_K}", "evidence without context"
_SYSTEMS = ("base", "robust", _WIDE, _PLAIN, "evidence")
_PARTS = {f"without {part}": (part,) for part in CONTEXT} | {_PLAIN: tuple(CONTEXT)}


class Evidence(Study):
    name = "evidence"
    title = "Evidence: what does the context of the neighbours tell?"
    about = (
        "Beyond the paper. Robust judges a neighbour by its distance and by the model's confidence. Evidence also sees "
        "the tokens before it, its source, and whether it continues a neighbour of the step before, and has 32 "
        "neighbours; so robust with 32 and evidence without any context are given too."
    )

    def steps(self, setup: Setup) -> Iterator[Step]:
        for domain in setup.domains:
            yield self._compare(setup, domain)
            for fits in self._fits(setup, domain).values():
                yield from (setup.judge(domain, fit) for fit in fits)

    def _fits(self, setup: Setup, domain: Domain) -> dict[str, list[Fit]]:
        """Those of each system, by seed."""
        seeds: list[dict[str, Any]] = [
            {} if seed == 1 else {"seed": seed} for seed in range(1, setup.seeds[domain.name] + 1)
        ]
        found = {
            "robust": [setup.fit(domain, "robust", **seed) for seed in seeds],
            _WIDE: [setup.fit(domain, "robust", k=EVIDENCE_K, **seed) for seed in seeds],
            "evidence": [setup.fit(domain, "evidence", **seed) for seed in seeds],
        }
        for name, without in _PARTS.items():
            found[name] = [setup.fit(domain, "evidence", without=without, **seed) for seed in seeds]
        return found

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        knn = (setup.system(name, domain, fits[0]) for name, fits in self._fits(setup, domain).items())
        systems = (setup.system("base", domain), *knn)
        return Compare(systems, domain.test, "robust")

    def section(self, setup: Setup, results: Results) -> Section:
        scores = {each.name: results(self._compare(setup, each)) for each in setup.domains}
        judged = {
            each.name: {
                name: [results(setup.judge(each, fit)) for fit in fits]
                for name, fits in self._fits(setup, each).items()
            }
            for each in setup.domains
        }
        tables = [_bleu(setup, scores), _forced(setup, judged), _parts(setup, scores, judged)]
        return Section(self.name, self.title, self.about, tables, claims=[_claim(scores)])


def _bleu(setup: Setup, scores: dict[str, Result]) -> Table:
    rows: list[Row] = []
    for system in _SYSTEMS:
        found = [each["systems"][system] for each in scores.values()]
        robust = [each["systems"]["robust"] for each in scores.values()]
        marks = [mark(*both) if system == "evidence" else "" for both in zip(found, robust, strict=True)]
        cells = [bleu_cell(each, mark=shown) for each, shown in zip(found, marks, strict=True)]
        rows.append(row(system, *cells, number(fmean(each["bleu"] for each in found)), rule=system == "evidence"))
    notes = [
        "† p < 0.05, ‡ p < 0.01: significantly better than robust (two-sided, by 1,000 paired bootstrap resamples).",
        *(sentences_note(domain) for domain in setup.domains),
        processors_note(scores.values()),
    ]
    columns = ["", *scores, "average"]
    return Table("evidence-bleu", "BLEU", columns, bold_best(rows, range(1, len(columns))), notes)


def _forced(setup: Setup, judged: dict[str, dict[str, list[Result]]]) -> Table:
    rows: list[Row] = []
    for domain, found in judged.items():
        for number_of_row, system in enumerate(_SYSTEMS[1:]):
            each = found[system]
            cells: list[Cell | str] = [domain if number_of_row == 0 else "", system]
            cells += [over_seeds(each, figure, ".4f") for figure in ("nll", "accuracy")]
            cells += [percent(each[0]["gold_in_k"]), number(fmean(one["mean_lambda"] for one in each))]
            rows.append(row(*cells, rule=number_of_row == 0 and bool(rows)))
    columns = ["domain", "system", "NLL", "accuracy", "token among K", "mean λ"]
    return Table("evidence-nll", "Likelihood and accuracy", columns, rows, [_seeds_note(setup)])


def _parts(setup: Setup, scores: dict[str, Result], judged: dict[str, dict[str, list[Result]]]) -> Table:
    rows: list[Row] = []
    for domain, found in judged.items():
        whole = fmean(each["nll"] for each in found["evidence"])
        for name in ("evidence", *_PARTS):
            difference = fmean(each["nll"] for each in found[name]) - whole
            cells: list[Cell | str] = [domain if name == "evidence" else "", name]
            cells += [bleu_cell(scores[domain]["systems"][name])]
            cells += [over_seeds(found[name], figure, ".4f") for figure in ("nll", "accuracy")]
            cells += [number(None if name == "evidence" else difference, "+.4f")]
            rows.append(row(*cells, rule=name == "evidence" and bool(rows)))
    columns = ["domain", "", "BLEU", "NLL", "accuracy", "NLL − evidence's"]
    notes = [
        "prefix: the tokens before a neighbour; source: its source; continuation: whether it continues a neighbour.",
        _seeds_note(setup),
    ]
    return Table("evidence-parts", "What each part of the context is worth", columns, rows, notes)


def _seeds_note(setup: Setup) -> str:
    counts = ", ".join(sorted({str(count) for count in setup.seeds.values()}))
    return f"NLL, accuracy and λ: mean ± deviation over {counts} seeds."


def _claim(scores: dict[str, Result]) -> Claim:
    gains = {name: gain(each, "evidence", "robust") for name, each in scores.items()}
    average = Difference.average(list(gains.values()))
    p = {name: each["systems"]["evidence"]["bleu_p"] for name, each in scores.items()}
    significant = [name for name in scores if p[name] < WEAK and gains[name].value > 0]
    shown = ", ".join(f"{name} {found}" for name, found in gains.items())
    return Claim(
        "evidence is better than robust (our claim).",
        average.is_positive,
        f"BLEU evidence − robust: {shown}; average {average}; significant on {', '.join(significant) or 'none'}.",
    )
