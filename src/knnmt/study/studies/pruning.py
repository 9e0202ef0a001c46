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
    percent,
    row,
)
from knnmt.study import paper
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit, Judge, Memory, System
from knnmt.study.studies.confidence import AGAIN, FULL
from knnmt.study.studies.figures import (
    PAPER_NOTE,
    Difference,
    bleu_cell,
    figure_cell,
    gain,
    processors_note,
    sentences_note,
)
from knnmt.study.studies.study import DomainStudy, Results

METHODS = ("adaptive", "robust")
SHARES = (0.2, 0.4, 0.6, 0.8)
WAYS = {"random": "at random", "confidence": "highest confidence first"}

MASKED = "masked"
_MASKED_NOTE = (
    "trained once, with the neighbours of each dev sentence taken from one of all these stores, drawn at random."
)

What = tuple[str, float, str, str]  # way, removed share, method, where it was trained


class Pruning(DomainStudy):
    name = "pruning"
    title = "Smaller stores: which method loses least?"
    about = (
        "Tables 4 and 5 of the paper. A share of the entries is removed at random, or those with the highest "
        "confidence first. Both methods are used as trained on the full store, the stricter test, and trained again on "
        "what is left. NLL and accuracy are given also for training on masked memories."
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

    def _fits(self, setup: Setup, domain: Domain) -> dict[What, tuple[Fit, Memory]]:
        """The combiners and the memories that they are used with."""
        memories = self._memories(setup, domain)
        distinct = tuple(dict.fromkeys(memory for memory, _ in memories.values()))
        found: dict[What, tuple[Fit, Memory]] = {}
        for (way, share), (memory, _) in memories.items():
            for method in METHODS:
                fits = {
                    FULL: setup.fit(domain, method),
                    AGAIN: setup.fit(domain, method, memory=memory),
                    MASKED: setup.fit_masked(domain, method, distinct),
                }
                found |= {(way, share, method, trained): (fit, memory) for trained, fit in fits.items()}
        return found

    def _systems(self, setup: Setup, domain: Domain) -> dict[What, System]:
        memories = self._memories(setup, domain)
        found: dict[What, System] = {}
        for (way, share, method, trained), (fit, memory) in self._fits(setup, domain).items():
            name = memories[way, share][1]
            if trained != MASKED:  # the teacher-forced figures say enough about it
                label = f"{name} {method}" if share == 0 else f"{name} {method} {trained}"
                found[way, share, method, trained] = setup.system(label, domain, fit, memory)
        return found

    def _judged(self, setup: Setup, domain: Domain) -> dict[What, Judge]:
        return {what: setup.judge(domain, fit, memory) for what, (fit, memory) in self._fits(setup, domain).items()}

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = {system.name: system for system in self._systems(setup, domain).values()}
        return Compare(tuple(systems.values()), domain.test, "all adaptive")

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        bleu = {what: scores["systems"][system.name] for what, system in self._systems(setup, domain).items()}
        judged = {what: results(judge) for what, judge in self._judged(setup, domain).items()}
        notes = [sentences_note(domain), processors_note([scores])]
        sizes = {at: results(memory)["entries"] for at, (memory, _) in self._memories(setup, domain).items()}
        tables = [
            table
            for way in WAYS
            for table in (_bleu_table(way, domain, bleu, sizes, notes), _forced_table(way, domain, judged, notes))
        ]
        figures = [_figure(way, domain, bleu) for way in WAYS]
        names = {what: system.name for what, system in self._systems(setup, domain).items()}
        claims = _claims(domain, names, scores)
        return Section(self.name, self.title, self.about, tables, figures, claims)


def _bleu_table(
    way: str, domain: Domain, bleu: dict[What, Result], sizes: dict[tuple[str, float], int], notes: list[str]
) -> Table:
    of_paper = domain.name == "it"
    both = [(trained, method) for trained in (FULL, AGAIN) for method in METHODS]
    rows = []
    for share in (0.0, *SHARES):
        cells: list[Cell | str] = [f"{share:.0%}", count(sizes[way, share])]
        cells += [bleu_cell(bleu[way, share, method, trained]) for trained, method in both]
        if of_paper:
            cells += [number(paper.PRUNING[way][method][share]) for method in METHODS]
        rows.append(row(*cells, rule=share == SHARES[0]))
    columns = ["removed", "entries", *(f"{method}, {trained}" for trained, method in both)]
    columns += [f"{method}, paper" for method in METHODS] if of_paper else []
    if of_paper:
        notes = [*notes, PAPER_NOTE]
    title = f"BLEU on {domain.name}, entries removed {WAYS[way]}"
    return Table(f"pruning-{way}-{domain.name}", title, columns, rows, notes)


def _forced_table(way: str, domain: Domain, judged: dict[What, Result], notes: list[str]) -> Table:
    every = [(trained, method) for trained in (FULL, AGAIN, MASKED) for method in METHODS]
    rows = []
    for share in (0.0, *SHARES):
        found = [judged[way, share, method, trained] for trained, method in every]
        cells: list[Cell | str] = [f"{share:.0%}", percent(found[0]["gold_in_k"])]
        cells += [figure_cell(each, "nll") for each in found]
        cells += [figure_cell(each, "accuracy") for each in found]
        rows.append(row(*cells, rule=share == SHARES[0]))
    names = [f"{method}, {trained}" for trained, method in every]
    columns = ["removed", "token among K", *(f"NLL {name}" for name in names), *(f"accuracy {name}" for name in names)]
    title = f"NLL and accuracy on {domain.name}, entries removed {WAYS[way]}"
    return Table(f"pruning-{way}-nll-{domain.name}", title, columns, rows, [*notes, f"{MASKED}: {_MASKED_NOTE}"])


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


def _claims(domain: Domain, names: dict[What, str], scores: Result) -> list[Claim]:
    claims = []
    for trained in (FULL, AGAIN):
        weights: dict[str, dict[str, float]] = {}  # of scores, in the mean over the pruned stores
        for way, words in WAYS.items():
            robust, adaptive = (
                {share: names[way, share, method, trained] for share in (0.0, *SHARES)}
                for method in ("robust", "adaptive")
            )
            gains = ", ".join(f"{share:.0%} {gain(scores, robust[share], adaptive[share])}" for share in robust)
            weights[way] = {robust[share]: 1 / len(SHARES) for share in SHARES}
            weights[way] |= {adaptive[share]: -1 / len(SHARES) for share in SHARES}
            average = Difference.of(scores, weights[way])
            published = paper.PRUNING[way]
            expected = fmean(published["robust"][share] - published["adaptive"][share] for share in SHARES)
            claims.append(
                Claim(
                    f"{domain.name}, {words}, {trained}: robust is better than adaptive on pruned stores "
                    f"(the paper: {expected:+.2f} BLEU on average).",
                    average.is_positive,
                    f"BLEU robust − adaptive by the share removed: {gains}; average of 20–80% {average}.",
                )
            )
        first, random = (Difference.of(scores, weights[way]) for way in ("confidence", "random"))
        more = Difference.of(scores, weights["confidence"] | {name: -w for name, w in weights["random"].items()})
        claims.append(
            Claim(
                f"{domain.name}, {trained}: robust gains most if the highest confidence is removed first.",
                more.is_positive,
                f"BLEU robust − adaptive on average: {first} highest confidence first, {random} at random; "
                f"difference {more}.",
            )
        )
    return claims
