"""Run studies: make the plan, do its steps, write the report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knnmt.decoding import Settings
from knnmt.errors import StudyError
from knnmt.model import TranslationModel
from knnmt.progress import progress
from knnmt.study.benchmark import Benchmark
from knnmt.study.kept_report import KeptReport
from knnmt.study.lab import Lab
from knnmt.study.plan import Plan
from knnmt.study.presets import PAPER_MODEL, PRESETS
from knnmt.study.setup import Setup
from knnmt.study.studies import STUDIES, Study
from knnmt.study.work import Work


@dataclass(frozen=True)
class Run:
    """Studies of a model on a benchmark, planned and not yet run.

    Example:
        run = Run.open("multidomain-de-en", "de-en-small", "report", only=["main"])
        print(run.plan.seconds, run.plan.disk)
        run.finish()
    """

    studies: Sequence[Study]
    setup: Setup
    lab: Lab
    report: KeptReport

    @classmethod
    def open(
        cls,
        benchmark: str | Path,
        model: str | TranslationModel | None,
        out: str | Path,
        *,
        only: Sequence[str] = (),
        domains: Sequence[str] = (),
        seeds: int = 3,
        test_limit: int | None = None,
        preset: str = "tuned",
        work: str | Path | None = None,
        settings: Settings | None = None,
        engine: str = "auto",
        precision: str = "auto",
        device: str = "auto",
        **languages: str,
    ) -> "Run":
        """Check everything before the work begins.

        Args:
            benchmark: a directory `DOMAIN/{train,dev,test}.{SRC,TGT}`
            model: directory, hub id or the bundled `de-en-small`; the preset `paper` has one of its own
            out: directory of the report
            only: names of studies; empty: all
            domains: names of domains; empty: all
            seeds: how many seeds the ablation has
            test_limit: translate only the first sentences of each test set
            preset: one of `PRESETS`
            work: directory for stores and kept results; by default `work` in `out`
            settings: of the beam search
            engine, precision, device: how the model is run, as in `knnmt.build`
            languages: `source_lang`, `target_lang`, `source_prefix`, where the model needs them
        """
        studies = [_chosen(STUDIES, name, "study") for name in only] or list(STUDIES.values())
        chosen = _chosen(PRESETS, preset, "preset")
        if model is None and preset == "paper":
            model = PAPER_MODEL
        if model is None:
            raise StudyError("Say which model is to be studied with --model.")
        if not isinstance(model, TranslationModel):
            model = TranslationModel.load(model, device=device, **languages)
        if model.codec.languages is None:
            raise StudyError(f"{model.name} does not say its languages; give --source-lang and --target-lang.")
        texts = Benchmark.open(benchmark, model.codec.languages, domains)
        out = Path(out)
        settings = settings or Settings()
        lab = Lab(Work(Path(work) if work else out / "work"), model, settings, engine, precision)
        setup = Setup(texts, lab.base, settings.signature, chosen, seeds, test_limit)
        report = KeptReport(out)
        report.open(setup)
        return cls(studies, setup, lab, report)

    @property
    def plan(self) -> Plan:
        """The steps that are left."""
        return Plan.of((step for study in self.studies for step in study.steps(self.setup)), self.lab)

    def finish(self) -> Path:
        """Do all steps and write the report. After an interruption, call it again: only what is left is done."""
        plan = self.plan
        plan.check_room(self.lab.work.path)
        with progress("Study", total=max(plan.seconds, 1), unit="steps") as meter:
            for number, planned in enumerate(plan.steps, start=1):
                meter.status(f"{number} of {len(plan.steps)}: {planned.step.title}")
                self.lab.work.directory(planned.step).mkdir(parents=True, exist_ok=True)
                start = time.process_time()
                self.lab.work.keep(planned.step, planned.step.run(self.lab), time.process_time() - start)
                meter.advance(planned.seconds, units=1)
        for study in self.studies:
            self.report.add(self.setup, dict(study.sections(self.setup, self.lab.result)))
        return self.report.write(list(STUDIES))


def _chosen(table: dict[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise StudyError(f"There is no {what} {name}; choose one of {', '.join(table)}.")
    return table[name]
