"""λ by the model's confidence: Figures 2 and 6 of the paper."""

from collections.abc import Iterator
from typing import Any

from knnmt.report import (
    Axis,
    Cell,
    Claim,
    Figure,
    Point,
    Section,
    Series,
    Table,
    count,
    line_chart,
    percent,
    row,
)
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Judge
from knnmt.study.studies.figures import figure_cell, processors_note, sentences_note
from knnmt.study.studies.study import DomainStudy, Results

METHODS = ("adaptive", "robust")
_SAME = 0.02  # a smaller difference between two means of λ says nothing

Curve = list[dict[str, Any]]


class Lambdas(DomainStudy):
    name = "lambda"
    title = "How far is the memory trusted?"
    about = (
        "Figures 2 and 6 of the paper. λ is the memory's share in the prediction. Its mean is taken over the tokens of "
        "the references (teacher-forced), by the model's own p of the right token, apart for tokens that are among the "
        "neighbours (retrieved) and tokens that are not (missed)."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield from (self._judge(setup, domain, method) for method in METHODS)

    def _judge(self, setup: Setup, domain: Domain, method: str) -> Judge:
        return setup.judge(domain, setup.fit(domain, method))

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        judged = {method: results(self._judge(setup, domain, method)) for method in METHODS}
        notes = [sentences_note(domain), processors_note(judged.values())]
        tables, figures = [_table(domain, judged, notes)], [_figure(domain, judged)]
        return Section(self.name, self.title, self.about, tables, figures, _claims(domain, judged))


def _points(result: Result, retrieved: bool) -> Curve:
    return [point for point in result["curve"] if point["retrieved"] == retrieved]


def _table(domain: Domain, judged: dict[str, Result], notes: list[str]) -> Table:
    rows = []
    found, missed = (_points(judged["robust"], retrieved) for retrieved in (True, False))
    for index, (hit, miss) in enumerate(zip(found, missed, strict=True)):
        low, high = hit["confidence"]
        positions = hit["positions"] + miss["positions"]
        cells: list[Cell | str] = [f"[{low:.1f}, {high:.1f}{']' if high == 1 else ')'}", count(int(positions))]
        cells.append(percent(miss["positions"] / positions if positions else None))
        for retrieved in (True, False):
            cells += [
                figure_cell(judged[method] | _points(judged[method], retrieved)[index], "mean_lambda")
                for method in METHODS
            ]
        rows.append(row(*cells))
    columns = ["p of the right token", "tokens", "missed"]
    columns += [f"λ {method}, {what}" for what in ("retrieved", "missed") for method in METHODS]
    return Table(f"lambda-{domain.name}", f"Mean λ on {domain.name}", columns, rows, notes)


def _figure(domain: Domain, judged: dict[str, Result]) -> Figure:
    series = []
    for retrieved in (True, False):
        for method in reversed(METHODS):
            name = f"{method}, {'retrieved' if retrieved else 'missed'}"
            points = [
                Point(
                    sum(each["confidence"]) / 2,
                    each["mean_lambda"],
                    f"{name}: λ {each['mean_lambda']:.2f} over {each['positions']:,} tokens",
                )
                for each in _points(judged[method], retrieved)
                if each["positions"]
            ]
            series.append(Series(name, points, colour=0 if retrieved else 1, dashed=method == "adaptive"))
    title = f"Mean λ on {domain.name} by the model’s confidence in the right token"
    return Figure(
        f"lambda-{domain.name}",
        title,
        line_chart(title, Axis("the model’s own p of the right token"), Axis("λ"), series),
    )


def _claims(domain: Domain, judged: dict[str, Result]) -> list[Claim]:
    means = {
        (method, retrieved): [point["mean_lambda"] for point in _points(judged[method], retrieved)]
        for method in METHODS
        for retrieved in (True, False)
    }
    if any(value is None for values in means.values() for value in values):
        return []
    spread = {method: max(means[method, False]) - min(means[method, False]) for method in METHODS}
    falls = {method: means[method, False][0] - means[method, False][-1] for method in METHODS}
    hit = [means[method, True][0] for method in METHODS]
    miss = [means[method, False][-1] for method in METHODS]
    shown = (
        f"From p < 0.2 to p ≥ 0.8, λ falls by {falls['adaptive']:.2f} (adaptive, within {spread['adaptive']:.2f}) "
        f"and by {falls['robust']:.2f} (robust, within {spread['robust']:.2f})."
    )
    return [
        Claim(
            f"{domain.name}: when the token is missed, λ of robust falls with the model's confidence.",
            _clear(falls["robust"]),
            shown,
        ),
        Claim(
            f"{domain.name}: when the token is missed, λ of adaptive hardly depends on the model's confidence (here: "
            "at most half as much as λ of robust).",
            _clear(abs(falls["robust"]) / 2 - abs(falls["adaptive"])),
            shown,
        ),
        Claim(
            f"{domain.name}: where the model is wrong (p < 0.2) and the token is retrieved, λ of robust is the larger.",
            _clear(hit[1] - hit[0]),
            f"Adaptive {hit[0]:.2f}, robust {hit[1]:.2f} (the paper: adaptive 0.52).",
        ),
        Claim(
            f"{domain.name}: where the model is right (p ≥ 0.8) and the token is missed, λ of robust is the smaller.",
            _clear(miss[0] - miss[1]),
            f"Adaptive {miss[0]:.2f}, robust {miss[1]:.2f}.",
        ),
    ]


def _clear(difference: float) -> bool | None:
    return None if abs(difference) < _SAME else difference > 0
