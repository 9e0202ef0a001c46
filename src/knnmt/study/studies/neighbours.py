"""The number of neighbours: Figure 5 of the paper."""

from collections.abc import Iterator

from knnmt.report import Axis, Cell, Claim, Figure, Places, Point, Section, Series, Table, bold_best, line_chart, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import METHODS, Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit, System
from knnmt.study.studies.figures import (
    Difference,
    all_held,
    bleu_cell,
    figure_cell,
    gain,
    processors_note,
    sentences_note,
)
from knnmt.study.studies.study import DomainStudy, Results

KS = (4, 8, 16, 32)


class Neighbours(DomainStudy):
    name = "k"
    title = "How many neighbours?"
    about = (
        "Figure 5 of the paper: K = 4, 8, 16 and 32. Vanilla's λ and T are tuned for each K unless the preset gives "
        "them; the others are trained."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield self._compare(setup, domain)
        yield from (setup.judge(domain, fit) for fit in self._fits(setup, domain).values())

    def _fits(self, setup: Setup, domain: Domain) -> dict[tuple[str, int], Fit]:
        return {(method, k): setup.fit(domain, method, k=k) for method in METHODS for k in KS}

    def _systems(self, setup: Setup, domain: Domain) -> dict[tuple[str, int], System]:
        fits = self._fits(setup, domain)
        return {what: setup.system(_name(*what), domain, fit) for what, fit in fits.items()}

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = tuple(self._systems(setup, domain).values())
        return Compare(systems, domain.test, _name("adaptive", 8))

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        bleu = {what: scores["systems"][system.name] for what, system in self._systems(setup, domain).items()}
        judged = {what: results(setup.judge(domain, fit)) for what, fit in self._fits(setup, domain).items()}
        rows = []
        for k in KS:
            cells: list[Cell | str] = [str(k), *(bleu_cell(bleu[method, k]) for method in METHODS)]
            rows.append(row(*cells, *(figure_cell(judged[method, k], "nll") for method in METHODS)))
        rows = bold_best(rows, range(1, 1 + len(METHODS)))
        rows = bold_best(rows, range(1 + len(METHODS), 1 + 2 * len(METHODS)), lowest=True)
        columns = ["K", *(f"BLEU {method}" for method in METHODS), *(f"NLL {method}" for method in METHODS)]
        notes = [sentences_note(domain), processors_note([scores])]
        table = Table(f"k-{domain.name}", f"{domain.name} by the number of neighbours", columns, rows, notes)
        claims = _claims(domain, scores)
        return Section(self.name, self.title, self.about, [table], [_figure(domain, bleu)], claims)


def _figure(domain: Domain, bleu: dict[tuple[str, int], Result]) -> Figure:
    series = [
        Series(
            method,
            [
                Point(k, score, f"{method}, K = {k}: {score:.2f} BLEU")
                for k in KS
                for score in [bleu[method, k]["bleu"]]
            ],
            colour=colour,
        )
        for colour, method in enumerate(METHODS)
    ]
    title = f"BLEU on {domain.name} by K"
    heights = [point.y for each in series for point in each.points]
    svg = line_chart(title, Places("K", KS, scale="log"), Axis.covering("BLEU", heights), series)
    return Figure(f"k-{domain.name}", title, svg)


def _name(method: str, k: int) -> str:
    return f"{method} K={k}"


def _claims(domain: Domain, scores: Result) -> list[Claim]:
    gains = {k: gain(scores, _name("robust", k), _name("adaptive", k)) for k in KS}
    changes = {method: gain(scores, _name(method, 32), _name(method, 8)) for method in METHODS}
    ends = {("robust", 32): 1.0, ("adaptive", 32): -1.0, ("robust", 4): -1.0, ("adaptive", 4): 1.0}
    growth = Difference.of(scores, {_name(*what): weight for what, weight in ends.items()})
    shown = ", ".join(f"K = {k} {found}" for k, found in gains.items())
    return [
        Claim(
            f"{domain.name}: a larger K does not hurt robust.",
            changes["robust"].is_no_loss,
            f"K = 8 to K = 32: {', '.join(f'{method} {change}' for method, change in changes.items())} BLEU.",
        ),
        Claim(
            f"{domain.name}: robust is better than adaptive at every K.",
            all_held([found.is_positive for found in gains.values()]),
            f"BLEU robust − adaptive: {shown}.",
        ),
        Claim(
            f"{domain.name}: robust gains more over adaptive at K = 32 than at K = 4.",
            growth.is_positive,
            f"BLEU robust − adaptive: {shown}; from K = 4 to K = 32 {growth}.",
        ),
    ]
