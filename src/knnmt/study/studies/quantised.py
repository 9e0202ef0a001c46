"""Exact and quantised distances: how much of the paper's difference is that?"""

from collections.abc import Iterator

from knnmt.report import Cell, Claim, Section, Table, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Step
from knnmt.study.steps import Compare, Fit, System, View
from knnmt.study.studies.figures import bleu_cell, figure_cell, processors_note, sentences_note
from knnmt.study.studies.study import DomainStudy, Results

METHODS = ("adaptive", "robust")
DISTANCES = {"code": "of the codes", "exact": "exact"}


class Quantised(DomainStudy):
    name = "quantised"
    title = "Exact or quantised distances?"
    about = (
        "Beyond the paper. The authors' code searches an index of product-quantised keys (IVF4096,PQ64, 32 probes). It "
        "gives adaptive the distances to the quantised keys, and computes exact distances for robust only. Here both "
        "methods are trained and used with both kinds of distances of the same index."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield self._compare(setup, domain)
        yield from (setup.judge(domain, fit) for fit in self._fits(setup, domain).values())
        yield self._view(setup, domain)

    def _view(self, setup: Setup, domain: Domain) -> View:
        return View(setup.store(domain), None, "ivfpq")

    def _fits(self, setup: Setup, domain: Domain) -> dict[tuple[str, str], Fit]:
        view = self._view(setup, domain)
        return {
            (method, distances): setup.fit(domain, method, memory=view, distances=distances)
            for method in METHODS
            for distances in DISTANCES
        }

    def _systems(self, setup: Setup, domain: Domain) -> dict[tuple[str, str], System]:
        fits = self._fits(setup, domain)
        return {what: setup.system(" ".join(what), domain, fit) for what, fit in fits.items()}

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = tuple(self._systems(setup, domain).values())
        return Compare(systems, domain.test, "adaptive exact")

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        bleu = {what: scores["systems"][system.name] for what, system in self._systems(setup, domain).items()}
        judged = {what: results(setup.judge(domain, fit)) for what, fit in self._fits(setup, domain).items()}
        rows = []
        for method in METHODS:
            cells: list[Cell | str] = [method, *(bleu_cell(bleu[method, each]) for each in DISTANCES)]
            rows.append(row(*cells, *(figure_cell(judged[method, each], "nll", ".4f") for each in DISTANCES)))
        columns = ["", *(f"{figure}, {words}" for figure in ("BLEU", "NLL") for words in DISTANCES.values())]
        search = results(self._view(setup, domain))["search"]
        recall = f"Index {search['index']}, {search['probes']} probes, recall@8 {search['recall']['8']:.3f}."
        notes = [recall, sentences_note(domain), processors_note([scores])]
        table = Table(f"quantised-{domain.name}", f"Distances on {domain.name}", columns, rows, notes)
        nll = {what: each["nll"] for what, each in judged.items()}
        same, released = (nll["adaptive", each] - nll["robust", "exact"] for each in ("exact", "code"))
        gains = [bleu["robust", "exact"]["bleu"] - bleu["adaptive", each]["bleu"] for each in ("exact", "code")]
        claim = Claim(
            f"{domain.name}: part of robust's gain over adaptive in the authors' code comes from the exact distances "
            "(our claim).",
            None if abs(released - same) < 0.002 else released > same,
            f"NLL adaptive − robust: {same:.4f} with exact distances for both, {released:.4f} as released; BLEU "
            f"{gains[0]:+.2f} and {gains[1]:+.2f}.",
        )
        return Section(self.name, self.title, self.about, [table], claims=[claim])
