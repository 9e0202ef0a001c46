"""The preliminary study: Table 1 of the paper."""

from collections.abc import Iterator

from knnmt.datastore.cuts import ConfidenceCut, Cut, RandomCut
from knnmt.report import Cell, Claim, Section, Table, count, number, row
from knnmt.study import paper
from knnmt.study.benchmark import Domain
from knnmt.study.setup import METHODS, Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit, System
from knnmt.study.studies.figures import PAPER_NOTE, bleu_cell, gain, processors_note, sentences_note
from knnmt.study.studies.study import DomainStudy, Results

FULL, AGAIN = "as trained", "trained again"
CUTS: dict[str, Cut] = {
    "random": RandomCut(0.2, seed=1),
    "[0%, 20%)": ConfidenceCut(0.0, 0.2),
    "[20%, 40%)": ConfidenceCut(0.2, 0.4),
    "[40%, 60%)": ConfidenceCut(0.4, 0.6),
    "[60%, 80%)": ConfidenceCut(0.6, 0.8),
    "[80%, 100%]": ConfidenceCut(0.8, 1.0),
}


class Confidence(DomainStudy):
    name = "confidence"
    title = "Which entries matter? One fifth removed at a time"
    about = (
        "Table 1 of the paper. All entries are ranked by the model's confidence in their tokens, highest first, and "
        "each fifth is removed in turn. Vanilla keeps K, λ and T of the full store. Adaptive and robust are used as "
        "trained on the full store, and trained again on what is left."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield self._compare(setup, domain)
        yield setup.store(domain)
        yield from (setup.view(domain, cut) for cut in CUTS.values())

    def _systems(self, setup: Setup, domain: Domain) -> dict[tuple[str, str, str], System]:
        """By the removed part, the method, and where it was trained."""
        found = {}
        for method in METHODS:
            full = setup.fit(domain, method)
            found["all", method, FULL] = setup.system(f"all {method}", domain, full)
            for name, cut in CUTS.items():
                view = setup.view(domain, cut)
                fits: dict[str, Fit] = {FULL: full}
                if method != "vanilla":
                    fits[AGAIN] = setup.fit(domain, method, memory=view)
                for trained, fit in fits.items():
                    found[name, method, trained] = setup.system(f"{name} {method} {trained}", domain, fit, view)
        return found

    def _compare(self, setup: Setup, domain: Domain) -> Compare:
        systems = tuple(self._systems(setup, domain).values())
        return Compare(systems, domain.test, "all adaptive")

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = results(self._compare(setup, domain))
        bleu = {what: scores["systems"][system.name] for what, system in self._systems(setup, domain).items()}
        table = self._table(setup, domain, bleu, scores, results)
        return Section(self.name, self.title, self.about, [table], claims=self._claims(setup, domain, scores))

    def _table(
        self,
        setup: Setup,
        domain: Domain,
        bleu: dict[tuple[str, str, str], Result],
        scores: Result,
        results: Results,
    ) -> Table:
        shown = [("vanilla", FULL), ("adaptive", FULL), ("robust", FULL), ("adaptive", AGAIN), ("robust", AGAIN)]
        of_paper = domain.name == "it"
        rows = []
        for name in ("all", *CUTS):
            memory = setup.view(domain, CUTS[name]) if name in CUTS else setup.store(domain)
            cells: list[Cell | str] = [name if name == "all" else f"− {name}"]
            for method, trained in shown:
                found = bleu.get((name, method, trained)) or bleu["all", method, FULL]
                cells.append(bleu_cell(found))
            cells.append(count(results(memory)["entries"]))
            if of_paper:
                cells += [number(paper.CONFIDENCE[name][method]) for method in ("vanilla", "adaptive")]
            rows.append(row(*cells, rule=name == "random"))
        columns = ["removed", *(f"{m}, {t}" if m != "vanilla" else m for m, t in shown), "entries"]
        columns += ["vanilla, paper", "adaptive, paper"] if of_paper else []
        notes = [sentences_note(domain), processors_note([scores])]
        if of_paper:
            notes.append(PAPER_NOTE)
        return Table(f"confidence-{domain.name}", f"BLEU on {domain.name} without some entries", columns, rows, notes)

    def _claims(self, setup: Setup, domain: Domain, scores: Result) -> list[Claim]:
        systems = self._systems(setup, domain)
        claims = []
        for text, part in (
            ("Removing the 20% most confident entries hurts more than removing 20% at random", "[0%, 20%)"),
            ("Removing the 20% least confident entries hurts more than removing 20% at random", "[80%, 100%]"),
        ):
            worse = {
                f"{method} ({trained})": gain(
                    scores, systems["random", method, trained].name, systems[part, method, trained].name
                )
                for method, trained in (("vanilla", FULL), ("adaptive", FULL), ("adaptive", AGAIN))
            }
            shown = ", ".join(f"{name} {value}" for name, value in worse.items())
            held = {value.is_positive for value in worse.values()}
            claims.append(
                Claim(
                    f"{text} ({domain.name}).",
                    held.pop() if len(held) == 1 else None,
                    f"BLEU random − {part}: {shown}.",
                )
            )
        return claims
