"""Fine-tuning: what a user would do instead."""

from collections.abc import Iterator
from dataclasses import dataclass

from knnmt.report import Cell, Section, Table, count, number, row
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step
from knnmt.study.steps import Compare, Finetune, System
from knnmt.study.steps.finetune import cpu_seconds
from knnmt.study.studies.figures import bleu_cell, processors_note, sentences_note
from knnmt.study.studies.study import DomainStudy, Results

CONVERGED = ("koran",)  # domains that are small enough to train until the dev loss stops falling
METHODS = {"full": "fine-tuned", "lora": "LoRA"}


@dataclass(frozen=True)
class _Way:
    """A row of the table: a fine-tuned model, alone or with a memory; without either the model under study."""

    label: str
    tuned: Finetune | None = None
    knn: bool = False


class FineTune(DomainStudy):
    name = "finetune"
    title = "Fine-tuning instead, and as well"
    about = (
        "Beyond the paper. The same model is fine-tuned on the same train set, in full and with LoRA, for as long as "
        "building the store and fitting robust took (CPU time), and for small domains until the dev loss stops "
        "falling. Off the domain: another domain's test set, without its memory. kNN on top: a store "
        "of the fine-tuned model."
    )

    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]:
        yield setup.store(domain)
        yield from self._knn_steps(setup, domain)
        for way in self._ways(setup, domain):
            if way.tuned:
                yield way.tuned
        yield from self._compared(setup, domain).values()

    def _knn_steps(self, setup: Setup, domain: Domain) -> tuple[Step, ...]:
        """What robust kNN-MT takes."""
        fit = setup.fit(domain, "robust")
        return (setup.store(domain), fit.features, fit)

    def _ways(self, setup: Setup, domain: Domain) -> list[_Way]:
        ways = [_Way("base"), _Way("robust", knn=True)]
        for method, label in METHODS.items():
            budget = Finetune(setup.model, domain.train, domain.dev, method, self._knn_steps(setup, domain))
            ways.append(_Way(f"{label}, same time", budget))
        if domain.name in CONVERGED:
            for method, label in METHODS.items():
                ways.append(_Way(f"{label}, to the end", Finetune(setup.model, domain.train, domain.dev, method)))
        best = next(way for way in reversed(ways) if way.tuned and way.tuned.method == "full")
        return [*ways, _Way(f"{best.label}, and robust", best.tuned, knn=True)]

    def _others(self, setup: Setup, domain: Domain) -> list[Domain]:
        """The domain itself and one more, off which it is tested."""
        return [domain, *[other for other in setup.domains if other.name != domain.name][:1]]

    def _system(self, setup: Setup, domain: Domain, test: Domain, way: _Way) -> System:
        if not way.knn:
            return setup.system(way.label, test, model=way.tuned)
        fit = setup.fit(domain, "robust", memory=setup.store(domain, way.tuned) if way.tuned else None)
        return setup.system(way.label, test, fit)

    def _compared(self, setup: Setup, domain: Domain) -> dict[str, Compare]:
        return {
            test.name: Compare(
                tuple(self._system(setup, domain, test, way) for way in self._ways(setup, domain)),
                test.test,
                "base",
            )
            for test in self._others(setup, domain)
        }

    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section:
        scores = {name: results(step) for name, step in self._compared(setup, domain).items()}
        rows = []
        for way in self._ways(setup, domain):
            cells: list[Cell | str] = [way.label]
            cells += [bleu_cell(each["systems"][way.label]) for each in scores.values()]
            cells += self._training(way, results) + self._cost(setup, domain, way, results)
            rows.append(row(*cells))
        columns = ["", *(f"BLEU {name}" for name in scores), "updates", "epochs", "dev NLL", "CPU-minutes", "MB"]
        notes = [
            "Epochs: begun. Dev NLL: of the fine-tuned model. MB: on disk, beside the base model.",
            *(sentences_note(test) for test in self._others(setup, domain)),
            processors_note(scores.values()),
        ]
        table = Table(f"finetune-{domain.name}", f"Fine-tuning on {domain.name}", columns, rows, notes)
        return Section(self.name, self.title, self.about, [table])

    def _training(self, way: _Way, results: Results) -> list[Cell]:
        """How long it was fine-tuned, and what came of it."""
        if way.tuned is None:
            return [number(None)] * 3
        report: Result = results(way.tuned)
        return [count(report["updates"]), count(report["epochs"]), number(report["best"]["nll"], ".3f")]

    def _cost(self, setup: Setup, domain: Domain, way: _Way, results: Results) -> list[Cell]:
        """CPU-minutes to make it, and megabytes on disk beside the base model."""
        seconds = size = 0.0
        if way.tuned:
            report: Result = results(way.tuned)
            seconds, size = seconds + report["cpu_seconds"], size + report["bytes"]
        if way.knn:
            fit = setup.fit(domain, "robust", memory=setup.store(domain, way.tuned) if way.tuned else None)
            store = results(fit.memory)
            seconds += sum(cpu_seconds(results(step)) for step in (fit.memory, fit.features, fit))
            size += sum(store["bytes"].values())
        return [number(seconds / 60 or None, ".1f"), number(size / 1e6 or None, ",.0f")]
