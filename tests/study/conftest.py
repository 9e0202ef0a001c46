"""A tiny benchmark, a model, and all studies of them, run once."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiny_study import HALVED, PLAIN, QUICK, open_run, write_benchmark
from worlds import load

from knnmt.evaluation import score_systems
from knnmt.finetuning import FinetuneRecipe
from knnmt.model import TranslationModel
from knnmt.search import INDEX_KINDS
from knnmt.study import STUDIES, Run
from knnmt.study.lab import Lab
from knnmt.study.presets import PRESETS
from knnmt.study.step import Result, Step


@dataclass(frozen=True)
class Studied:
    """The report of all studies that can be run here, with its working directory.

    Attributes:
        runs: of all domains, of one, and of two for fine-tuning
        executed: every step that was run, in order
    """

    benchmark: Path
    model: TranslationModel
    out: Path
    runs: list[Run]
    executed: list[Step]

    @property
    def work(self) -> Path:
        return self.out / "work"

    @property
    def studies(self) -> set[str]:
        return {name for run in self.runs for name in run.setups}

    def open(self, out: Path | None = None, **options: Any) -> Run:
        """Another run with the same working directory."""
        return open_run(self.benchmark, self.model, out or self.out, work=self.work, **options)


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and waiting for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    be_quick(monkeypatch)


def be_quick(patch: pytest.MonkeyPatch) -> None:
    """Short trainings, and few resamples for intervals and significance."""
    patch.setitem(PRESETS, QUICK.name, QUICK)
    patch.setattr("knnmt.study.steps.translate.score_systems", partial(score_systems, resamples=RESAMPLES))
    short = partial(FinetuneRecipe, learning_rate=1e-4, warmup=0, validate_every=2, patience=1, max_updates=4)
    patch.setattr("knnmt.study.steps.finetune.FinetuneRecipe", short)


RESAMPLES = 50


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    return write_benchmark(tmp_path_factory.mktemp("benchmark"))


@pytest.fixture(scope="session")
def model(family_directory: Callable[[str], Path]) -> TranslationModel:
    return load("marian", family_directory("marian"))


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps that are run from now on."""
    return count_steps(monkeypatch)


def count_steps(patch: pytest.MonkeyPatch) -> list[Step]:
    steps: list[Step] = []
    run = Lab.run

    def counted(self: Lab, step: Step) -> Result:
        result = run(self, step)
        steps.append(step)
        return result

    patch.setattr(Lab, "run", counted)
    return steps


ALL_DOMAINS = ("main", "lambda", "offdomain")


@pytest.fixture(scope="session")
def studied(tmp_path_factory: pytest.TempPathFactory, benchmark: Path, model: TranslationModel) -> Studied:
    """Three studies on all domains, the others on one, fine-tuning on two. Not to be changed."""
    one = [name for name in STUDIES if name not in (*ALL_DOMAINS, "finetune")]
    if "ivfpq" not in INDEX_KINDS:
        one.remove("quantised")
    asked: list[dict[str, Any]] = [{"only": ALL_DOMAINS}, {"only": one, "domains": [HALVED]}]
    if find_spec("peft"):
        asked.append({"only": ["finetune"], "domains": [PLAIN, HALVED]})
    out = tmp_path_factory.mktemp("studied") / "report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        be_quick(patch)
        executed = count_steps(patch)
        runs = []
        for options in asked:
            runs.append(open_run(benchmark, model, out, **options))
            runs[-1].finish()
    return Studied(benchmark, model, out, runs, executed)
