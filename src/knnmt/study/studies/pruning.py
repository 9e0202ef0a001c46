"""Smaller stores: Tables 4 and 5 of the paper."""

from collections.abc import Iterator
from statistics import fmean

from knnmt.datastore.cuts import ConfidenceCut, Cut, RandomCut
from knnmt.report import (
    Axis,
    Cell,
    Claim,
    Figure,
    Places,
    Point,
    Section,
    Series,
    Table,
    count,
    line_chart,
    number,
    row,
)
from knnmt.study import paper
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Judge, Memory, System
from knnmt.study.studies.confidence import AGAIN, FULL
from knnmt.study.studies.figures import bleu_cell, bleu_deviation, figure_cell, processors_note, sentences_note, verdict
from knnmt.study.studies.study import DomainStudy, Results

METHODS = ("adaptive", "robust")
SHARES = (0.2, 0.4, 0.6, 0.8)
WAYS = {"random": "at random", "confidence": "highest confidence first"}

What = tuple[str, float, str, str]  # way, removed share, method, where it was trained


class Pruning(DomainStudy):
    name = "pruning"
    title = "Smaller stores: which method loses least?"
    about = (
        "Tables 4 and 5 of the paper. A share of the entries is removed at random, or those with the highest "
        "confidence first. Both methods are used as trained on the full store, the stricter test, and trained again on "
        "what is left."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield self._compare(setup, domain)
        yield from self._judged(setup, domain).values()
        yield from (memory for memory, _ in self._memories(setup, domain).values())

    def _memories(self, setup: Setup, domain: Domain) -> dict[tuple[str, float], tuple[Memory, str]]:
        store = setup.store(domain)
        found: dict[tuple[str, float], tuple[Memory, str]] = {}
        for way in WAYS:
            found[way, 0.0] = (store, "all")
            for share in SHARES:
                cut: Cut = RandomCut(share, seed=1) if way == "random" else ConfidenceCut(0.0, share)
                found[way, share] = (setup.view(domain, cut), cut.name)
        return found

    def _systems(self, setup: Setup, domain: Domain) -> dict[What, System]:
        found = {}
        for (way, share), (memory, name) in self._memories(setup, domain).items():
            for method in METHODS:
                full = setup.fit(domain, method)
                again = full if share == 0 else setup.fit(domain, method, memory=memory)
                for trained, fit in ((FULL, full), (AGAIN, again)):
                    label = f"all {method}" if share == 0 else f"{name} {method} {trained}"
                    found[way, share, method, trained] = setup.system(label, domain, fit, memory)
        return found

    def _judged(self, setup: Setup, domain: Domain) -> dict[What, Judge]:
        found = {}
        for (way, share), (memory, _) in self._memories(setup, domain).items():
            for method in METHODS:
                full = setup.fit(domain, method)
                again = full if share == 0 else setup.fit(domain, method, memory=memory)
                found[way, share, method, FULL] = setup.judge(domain, full, memory)
                found[way, share, method, AGAIN] = setup.judge(domain, again, memory)
        return found

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = {system.name: system for system in self._systems(setup, domain).values()}
        return Compare(tuple(systems.values()), domain.test, "all adaptive")

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        bleu = {what: scores["systems"][system.name] for what, system in self._systems(setup, domain).items()}
        judged = {what: results(judge) for what, judge in self._judged(setup, domain).items()}
        notes = [sentences_note(domain), processors_note([scores])]
        sizes = {at: results(memory)["entries"] for at, (memory, _) in self._memories(setup, domain).items()}
        tables = [_table(way, domain, bleu, judged, sizes, notes) for way in WAYS]
        figures = [_figure(way, domain, bleu) for way in WAYS]
        return Section(self.name, self.title, self.about, tables, figures, _claims(domain, bleu, scores["sentences"]))


def _table(
    way: str,
    domain: Domain,
    bleu: dict[What, Result],
    judged: dict[What, Result],
    sizes: dict[tuple[str, float], int],
    notes: list[str],
) -> Table:
    of_paper = domain.name == "it"
    rows = []
    for share in (0.0, *SHARES):
        cells: list[Cell | str] = [f"{share:.0%}"]
        for trained in (FULL, AGAIN):
            cells += [bleu_cell(bleu[way, share, method, trained]) for method in METHODS]
        for trained in (FULL, AGAIN):
            cells += [figure_cell(judged[way, share, method, trained], "nll") for method in METHODS]
        cells.append(count(sizes[way, share]))
        if of_paper:
            cells += [number(paper.PRUNING[way][method][share]) for method in METHODS]
        rows.append(row(*cells, rule=share == SHARES[0]))
    both = [f"{method}, {trained}" for trained in (FULL, AGAIN) for method in METHODS]
    columns = ["removed", *(f"BLEU {name}" for name in both), *(f"NLL {name}" for name in both), "entries"]
    columns += [f"{method}, paper" for method in METHODS] if of_paper else []
    if of_paper:
        notes = [*notes, "The paper's figures are of the WMT19 model and German IT."]
    title = f"{domain.name}: entries removed {WAYS[way]}"
    return Table(f"pruning-{way}-{domain.name}", title, columns, rows, notes)


def _figure(way: str, domain: Domain, bleu: dict[What, Result]) -> Figure:
    series = []
    for colour, method in enumerate(METHODS):
        for trained in (AGAIN, FULL):
            name = f"{method}, {trained}"
            points = [
                Point(share, score, f"{name}: {score:.2f} BLEU without {share:.0%}")
                for share in (0.0, *SHARES)
                for score in [bleu[way, share, method, trained]["bleu"]]
            ]
            series.append(Series(name, points, colour=colour, dashed=trained == FULL))
    shares = (0.0, *SHARES)
    title = f"BLEU on {domain.name}, entries removed {WAYS[way]}"
    heights = [point.y for each in series for point in each.points]
    svg = line_chart(
        title, Places("removed", shares, [f"{share:.0%}" for share in shares]), Axis.covering("BLEU", heights), series
    )
    return Figure(f"pruning-{way}-{domain.name}", title, svg)


def _claims(domain: Domain, bleu: dict[What, Result], sentences: int) -> list[Claim]:
    claims = []
    for way, words in WAYS.items():
        for trained in (FULL, AGAIN):
            gains = {
                share: bleu[way, share, "robust", trained]["bleu"] - bleu[way, share, "adaptive", trained]["bleu"]
                for share in SHARES
            }
            shown = ", ".join(f"{share:.0%} {gain:+.2f}" for share, gain in gains.items())
            published = paper.PRUNING[way]
            expected = fmean(published["robust"][share] - published["adaptive"][share] for share in SHARES)
            claims.append(
                Claim(
                    f"{domain.name}, {words}, {trained}: robust is better than adaptive on pruned stores "
                    f"(the paper: {expected:+.2f} BLEU on average).",
                    verdict(fmean(gains.values()), bleu_deviation(sentences)),
                    f"BLEU robust − adaptive: {shown}; on the full store "
                    f"{bleu[way, 0.0, 'robust', FULL]['bleu'] - bleu[way, 0.0, 'adaptive', FULL]['bleu']:+.2f}.",
                )
            )
    return claims
