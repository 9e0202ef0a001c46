"""Run studies: their steps in order, with progress over all of them, and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knnmt.decoding import Settings
from knnmt.errors import StudyError
from knnmt.model import TranslationModel
from knnmt.progress import progress
from knnmt.study.benchmark import Benchmark
from knnmt.study.kept_report import KeptReport, Scope
from knnmt.study.lab import Lab
from knnmt.study.plan import Plan
from knnmt.study.presets import PAPER_MODEL, PRESETS
from knnmt.study.setup import Setup
from knnmt.study.step import MissingResult, Result, Step
from knnmt.study.studies import STUDIES, Study
from knnmt.study.work import Work


@dataclass(frozen=True)
class Run:
    """Studies of a model on a benchmark, planned and not yet run.

    Attributes:
        setup: of the domains that were asked for
        studies: those that were asked for
        setups: by study, also of the others that are in the report

    Example:
        run = Run.open("multidomain-de-en", "de-en-small", "report", only=["main"])
        print(run.plan.seconds, run.plan.disk)
        run.finish()
    """

    setup: Setup
    studies: Sequence[Study]
    setups: Mapping[str, Setup]
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
            out: directory of the report; what is in it from earlier runs stays
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
        report = KeptReport(Path(out))
        if model is None and preset == "paper":
            model = PAPER_MODEL
        if model is None:
            raise StudyError("Say which model is to be studied with --model.")
        if not isinstance(model, TranslationModel):
            model = TranslationModel.load(model, device=device, **languages)
        if model.codec.languages is None:
            raise StudyError(f"{model.name} does not say its languages; give --source-lang and --target-lang.")
        texts = Benchmark.open(benchmark, model.codec.languages, domains)
        settings = settings or Settings()
        lab = Lab(Work(Path(work) if work else report.path / "work"), model, settings, engine, precision)
        setup = Setup(texts, lab.base, settings.signature, chosen, dict.fromkeys(texts.domains, seeds))
        report.check(setup)
        asked = dict.fromkeys(texts.domains, Scope(test_limit, seeds))
        scopes = report.studies
        for study in studies:
            scopes[study.name] = scopes.get(study.name, {}) | asked
        setups = _setups(setup, scopes, model.codec.languages)
        report.check(replace(setup, benchmark=_all_texts(setup, scopes, model.codec.languages)))
        if unfit := [study for study in studies if not study.suits(setups[study.name])]:
            if only:
                names, few = (", ".join(each) for each in ([study.name for study in unfit], asked))
                raise StudyError(f"The study {names} cannot be run on {few} alone; choose more --domains.")
            studies = [study for study in studies if study not in unfit]
        setups = {name: each for name, each in setups.items() if STUDIES[name].suits(each)}
        return cls(setup, studies, setups, lab, report)

    @property
    def plan(self) -> Plan:
        """The steps that are left."""
        wanted = (step for study in self.studies for step in study.steps(self.setups[study.name]))
        return Plan.of(wanted, self.lab, self.report)

    def finish(self) -> Path:
        """Do all steps and write the report. After an interruption, call it again: only what is left is done."""
        plan = self.plan
        plan.check(self.lab.work.path)
        with progress("Study", total=max(plan.seconds, 1), unit="CPU-s") as meter:
            for number, planned in enumerate(plan.steps, start=1):
                meter.status(f"{number} of {len(plan.steps)}: {planned.step.title}")
                self.lab.run(planned.step)
                meter.advance(planned.seconds, units=planned.seconds)
        for study in self.studies:
            self.report.add(study, self.setups[study.name], self._result)
        return self.report.write(self._setups_now)

    def _setups_now(self) -> Mapping[str, Setup]:
        """By study, of everything that is in the report now: another run may have added to it."""
        languages = self.lab.model(self.lab.base).codec.languages
        assert languages is not None, "the run was opened"
        return _setups(self.setup, self.report.studies, languages)

    def _result(self, step: Step) -> Result:
        found = self.lab.work.find(step) or self.report.find(step)
        if found is None:
            raise MissingResult(step)
        return found


Scopes = Mapping[str, Mapping[str, Scope]]  # by study and domain


def _setups(setup: Setup, scopes: Scopes, languages: tuple[str, str]) -> dict[str, Setup]:
    """By study, with its domains, limited as it was asked for."""
    texts = _all_texts(setup, scopes, languages)
    return {name: _limited(replace(setup, benchmark=texts), each) for name, each in scopes.items() if name in STUDIES}


def _all_texts(setup: Setup, scopes: Scopes, languages: tuple[str, str]) -> Benchmark:
    """The benchmark with the domains of all studies."""
    texts = setup.benchmark
    others = dict.fromkeys(name for each in scopes.values() for name in each if name not in texts.domains)
    return Benchmark.open(texts.path, languages, [*others, *texts.domains]) if others else texts


def _limited(setup: Setup, scopes: Mapping[str, Scope]) -> Setup:
    domains = {name: setup.benchmark.domains[name].limited(scope.test_limit) for name, scope in scopes.items()}
    seeds = {name: scope.seeds for name, scope in scopes.items()}
    return replace(setup, benchmark=replace(setup.benchmark, domains=domains), seeds=seeds)


def _chosen(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise StudyError(f"There is no {what} {name}; choose one of {', '.join(table)}.")
    return table[name]
