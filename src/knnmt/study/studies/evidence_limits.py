"""The evidence method beside robust where the memory is bad: of another domain, or pruned."""

from collections.abc import Iterator

from knnmt.datastore.cuts import ConfidenceCut
from knnmt.report import Cell, Claim, Section, Table, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Fit, Judge, Memory
from knnmt.study.studies.confidence import AGAIN, FULL
from knnmt.study.studies.figures import Difference, bleu_cell, figure_cell, gain, processors_note, sentences_note
from knnmt.study.studies.study import Results, Study

METHODS = ("robust", "evidence")
_OTHER = "store of"
_CUT = ConfidenceCut(0.0, 0.6)

What = tuple[str, str]  # the memory, as it is shown, and the method


class EvidenceLimits(Study):
    name = "evidence-limits"
    title = "Evidence with a wrong memory, and with a pruned one"
    about = (
        "Beyond the paper. Every domain's test set is translated with every other domain's store and combiners, and "
        f"with its own store without the {_CUT.stop:.0%} of the entries of which the model was most confident."
    )

    def steps(self, setup: Setup) -> Iterator[Step]:
        for test in setup.domains:
            yield self._compare(setup, test)
            yield from self._judged(setup, test).values()

    def _fits(self, setup: Setup, test: Domain) -> dict[What, tuple[Fit, Memory]]:
        found: dict[What, tuple[Fit, Memory]] = {}
        view = setup.view(test, _CUT)
        for method in METHODS:
            for other in setup.domains:
                if other.name != test.name:
                    found[f"{_OTHER} {other.name}", method] = (setup.fit(other, method), setup.store(other))
            found[f"pruned, {FULL}", method] = (setup.fit(test, method), view)
            found[f"pruned, {AGAIN}", method] = (setup.fit(test, method, memory=view), view)
        return found

    def _judged(self, setup: Setup, test: Domain) -> dict[What, Judge]:
        return {what: setup.judge(test, fit, memory) for what, (fit, memory) in self._fits(setup, test).items()}

    def _compare(self, setup: Setup, test: Domain) -> Compare:
        knn = (
            setup.system(f"{memory} {method}", test, fit, store)
            for (memory, method), (fit, store) in self._fits(setup, test).items()
        )
        return Compare((setup.system("base", test), *knn), test.test, "base")

    def section(self, setup: Setup, results: Results) -> Section:
        scores = {test.name: results(self._compare(setup, test)) for test in setup.domains}
        rows = []
        for test in setup.domains:
            bleu = scores[test.name]["systems"]
            judged = {what: results(judge) for what, judge in self._judged(setup, test).items()}
            for memory in dict.fromkeys(memory for memory, _ in judged):
                cells: list[Cell | str] = [test.name, memory, bleu_cell(bleu["base"])]
                cells += [bleu_cell(bleu[f"{memory} {method}"]) for method in METHODS]
                cells += [figure_cell(judged[memory, method], "nll") for method in METHODS]
                cells += [figure_cell(judged[memory, method], "accuracy") for method in METHODS]
                rows.append(row(*cells))
        columns = ["test set", "memory", "BLEU base"]
        columns += [f"{figure} {method}" for figure in ("BLEU", "NLL", "accuracy") for method in METHODS]
        notes = [*(sentences_note(domain) for domain in setup.domains), processors_note(scores.values())]
        table = Table("evidence-limits", "Stores of other domains, and pruned stores", columns, rows, notes)
        return Section(self.name, self.title, self.about, [table], claims=list(_claims(scores)))


def _claims(scores: dict[str, Result]) -> Iterator[Claim]:
    kinds = {
        _OTHER: "evidence loses no more than robust off the domain",
        f"pruned, {AGAIN}": f"on pruned stores, {AGAIN}, evidence is better than robust",
        f"pruned, {FULL}": f"on pruned stores, {FULL}, evidence is better than robust",
    }
    for prefix, text in kinds.items():
        gains = {
            f"{test}, {name.removesuffix(' evidence')}": gain(found, name, name.replace(" evidence", " robust"))
            for test, found in scores.items()
            for name in found["systems"]
            if name.startswith(prefix) and name.endswith(" evidence")
        }
        if gains:
            average = Difference.average(list(gains.values()))
            shown = "; ".join(f"{name} {found}" for name, found in gains.items())
            held = average.is_no_loss if prefix == _OTHER else average.is_positive
            yield Claim(f"{text} (our claim).", held, f"BLEU evidence − robust: {shown}; average {average}.")
