"""The plan of a run: the steps that are still to do, in order, with what they will take."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from knnmt.errors import StudyError
from knnmt.search import machine_memory
from knnmt.study.kept_report import KeptReport
from knnmt.study.lab import Lab
from knnmt.study.step import Step


@dataclass(frozen=True)
class PlannedStep:
    """A step to do, with its estimated CPU-seconds, bytes on disk and bytes of memory."""

    step: Step
    seconds: float
    disk: float
    memory: float


@dataclass(frozen=True)
class Plan:
    """The steps to do, each after those it needs, and how many are done."""

    steps: Sequence[PlannedStep]
    done: int

    @classmethod
    def of(cls, wanted: Iterable[Step], lab: Lab, report: KeptReport) -> "Plan":
        """Everything that has to run for these results.

        What a kept result was made from is not needed again. A wanted result may also be in the report; an input must
        be in the working directory, with its larger parts.
        """
        order: dict[str, Step] = {}
        done: set[str] = set()
        known: set[str] = set()  # by their result alone

        def visit(step: Step) -> None:
            if step.key in order or step.key in done:
                return
            if lab.work.find(step) is not None and step.is_there(lab):
                done.add(step.key)
                return
            for needed in step.inputs():
                visit(needed)
            order[step.key] = step

        for step in wanted:
            if lab.work.find(step) or report.find(step):
                known.add(step.key)
            else:
                visit(step)
        rates = {kind: lab.work.rates(kind) for kind in {step.kind for step in order.values()}}
        return cls([_planned(step, rates[step.kind]) for step in order.values()], len((done | known) - order.keys()))

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.steps)

    @property
    def disk(self) -> float:
        return sum(each.disk for each in self.steps)

    @property
    def memory(self) -> float:
        return max((each.memory for each in self.steps), default=0)

    def check(self, work: Path) -> None:
        """Raise `StudyError` if a step cannot run here, or if the disk has too little room for what is to be done."""
        for each in self.steps:
            if each.step.obstacle:
                raise StudyError(each.step.obstacle)
        folder = next(each for each in (work, *work.absolute().parents) if each.is_dir())
        free = shutil.disk_usage(folder).free
        if self.disk > free:
            raise StudyError(
                f"The study needs about {self.disk / 1e9:,.1f} GB in {work}, where {free / 1e9:,.1f} GB are free; make "
                "room, give another --work, or choose fewer domains or studies."
            )

    @property
    def fits_in_memory(self) -> bool:
        return self.memory <= machine_memory()


def _planned(step: Step, rate: float | None) -> PlannedStep:
    estimate = step.estimate()
    seconds = estimate.units * (step.seconds_per_unit if rate is None else rate)
    return PlannedStep(step, seconds, estimate.disk, estimate.memory)
