"""What a wrong memory costs: every test set with every other domain's store."""

from collections.abc import Iterator

from knnmt.report import Cell, Section, Table, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import METHODS, Setup
from knnmt.study.step import Step
from knnmt.study.steps import Compare, System
from knnmt.study.studies.figures import bleu_cell, figure_cell, processors_note, sentences_note
from knnmt.study.studies.study import Results, Study


class OffDomain(Study):
    name = "offdomain"
    title = "What does a wrong memory cost?"
    about = (
        "Beyond the paper. Every domain's test set is translated with every other domain's store, and with the "
        "combiners that were fitted for that store. The base model is what a method should not fall below."
    )

    def steps(self, setup: Setup) -> Iterator[Step]:
        for test in setup.domains:
            yield self._compare(setup, test)
            yield from (judge for judge in self._judged(setup, test).values())

    def _systems(self, setup: Setup, test: Domain) -> dict[tuple[str, str], System]:
        """By the store's domain and the method."""
        found = {("", "base"): setup.system("base", test)}
        for other in setup.domains:
            if other.name != test.name:
                for method in METHODS:
                    fit = setup.fit(other, method)
                    found[other.name, method] = setup.system(f"{other.name} {method}", test, fit)
        return found

    def _judged(self, setup: Setup, test: Domain) -> dict[tuple[str, str], Step]:
        others = [other for other in setup.domains if other.name != test.name]
        return {
            (other.name, method): setup.judge(test, setup.fit(other, method)) for other in others for method in METHODS
        }

    def _compare(self, setup: Setup, test: Domain) -> Compare:
        systems = tuple(self._systems(setup, test).values())
        return Compare(systems, test.test, "base")

    def suits(self, setup: Setup) -> bool:
        return len(setup.domains) > 1

    def section(self, setup: Setup, results: Results) -> Section:
        rows, all_scores = [], []
        for test in setup.domains:
            scores = results(self._compare(setup, test))
            all_scores.append(scores)
            bleu = scores["systems"]
            judged = {what: results(step) for what, step in self._judged(setup, test).items()}
            for other in setup.domains:
                if other.name == test.name:
                    continue
                cells: list[Cell | str] = [test.name, other.name, bleu_cell(bleu["base"])]
                cells += [
                    bleu_cell(bleu[f"{other.name} {method}"], mark=_worse(bleu[f"{other.name} {method}"], bleu["base"]))
                    for method in METHODS
                ]
                cells += [figure_cell(judged[other.name, method], "nll") for method in METHODS]
                rows.append(row(*cells))
        columns = ["test set", "store", "BLEU base", *(f"BLEU {m}" for m in METHODS), *(f"NLL {m}" for m in METHODS)]
        notes = [
            "* significantly worse than base (p < 0.05, 1,000 paired bootstrap resamples).",
            *(sentences_note(domain) for domain in setup.domains),
            processors_note(all_scores),
        ]
        table = Table("offdomain", "Test sets with stores of other domains", columns, rows, notes)
        return Section(self.name, self.title, self.about, [table])


def _worse(score: dict[str, float], base: dict[str, float]) -> str:
    return "*" if score["bleu"] < base["bleu"] and (score["bleu_p"] or 1) < 0.05 else ""
