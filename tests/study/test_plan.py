"""Plans: what is still to do, in which order, and what it takes."""

import math
import shutil
from collections import namedtuple
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tiny_study import closure, fake_model, setup_of

from knnmt.decoding import Settings
from knnmt.errors import StudyError
from knnmt.model import TranslationModel
from knnmt.study import STUDIES, Plan, plan
from knnmt.study.kept_report import KeptReport
from knnmt.study.lab import Lab
from knnmt.study.step import Estimate, Result, Step
from knnmt.study.steps import Build, Collect, Translate
from knnmt.study.studies import main
from knnmt.study.work import Work


@dataclass(frozen=True)
class Brick(Step):
    """Made of others; its larger part is a file."""

    kind: ClassVar[str] = "brick"
    seconds_per_unit: ClassVar[float] = 3.0

    name: str
    below: tuple["Brick", ...] = field(default=())

    @property
    def title(self) -> str:
        return self.name

    def estimate(self) -> Estimate:
        return Estimate(units=2.0, disk=10.0, memory=float(ord(self.name)))

    def is_there(self, lab: Lab) -> bool:
        return (lab.work.directory(self) / "part").is_file()

    def run(self, lab: Lab) -> Result:
        for each in self.below:
            assert each.is_there(lab), "its inputs have run"
        (lab.work.directory(self) / "part").touch()
        return {}


A = Brick("a")
B = Brick("b", (A,))
C = Brick("c", (A,))
D = Brick("d", (C, B, A))


@pytest.fixture
def lab(tmp_path: Path, model: TranslationModel) -> Lab:
    return Lab(Work(tmp_path / "work"), model, Settings(), engine="torch")


class Report(KeptReport):
    """One that shows the results of some steps."""

    def __init__(self, path: Path, *shown: Step) -> None:
        super().__init__(path)
        self._results = {step.key: {"shown": True} for step in shown}


def planned(lab: Lab, *wanted: Step, shown: tuple[Step, ...] = ()) -> tuple[str, int]:
    """The names of the steps that are to do, and how many are done."""
    made = Plan.of(wanted, lab, Report(lab.work.path / "none", *shown))
    return "".join(each.step.title for each in made.steps), made.done


def lose(lab: Lab, step: Step) -> None:
    """The larger part of a kept result."""
    (lab.work.directory(step) / "part").unlink()


def test_inputs_come_first_and_each_step_once(lab: Lab) -> None:
    assert planned(lab, D) == ("acbd", 0)
    assert planned(lab, B, D, D, A, Brick("d", (C, B, A))) == ("abcd", 0)
    for each in Plan.of([D], lab, Report(lab.work.path / "none")).steps:
        lab.run(each.step)
    assert planned(lab, D) == ("", 1)


def test_what_is_done_is_not_planned(lab: Lab) -> None:
    lab.run(A)
    assert planned(lab, D) == ("cbd", 1)
    lab.run(B)
    assert planned(lab, D, A) == ("cd", 2)


def test_what_a_result_was_made_from_is_not_needed_again(lab: Lab) -> None:
    for step in (A, B):
        lab.run(step)
    shutil.rmtree(lab.work.directory(A))
    assert planned(lab, B) == ("", 1)
    assert planned(lab, B, Brick("e", (B,))) == ("e", 1)
    assert planned(lab, C) == ("ac", 0)


def test_larger_parts_that_are_gone_are_made_again_where_they_are_needed(lab: Lab) -> None:
    for step in (A, B):
        lab.run(step)
    lose(lab, B)
    assert planned(lab, B) == ("", 1), "only its result is wanted"
    assert planned(lab, Brick("e", (B,))) == ("be", 1)
    lose(lab, A)
    assert planned(lab, Brick("e", (B,))) == ("abe", 0), "and what they are made from"
    assert planned(lab, B, Brick("e", (B,))) == planned(lab, Brick("e", (B,)), B) == ("abe", 0)


def test_what_the_report_shows_is_not_planned(lab: Lab) -> None:
    assert planned(lab, B, shown=(B,)) == ("", 1)
    assert planned(lab, B, C, shown=(B,)) == ("ac", 1)
    assert planned(lab, D, B, shown=(B,)) == ("acbd", 0), "an input is needed itself"
    lab.run(A)
    lab.run(B)
    assert planned(lab, D, B, shown=(B,)) == ("cd", 2)


def test_estimates_are_added_up(lab: Lab) -> None:
    made = Plan.of([D], lab, Report(lab.work.path / "none"))
    assert [each.seconds for each in made.steps] == [6.0] * 4
    assert (made.seconds, made.disk, made.memory) == (24.0, 40.0, float(ord("d")))
    nothing = Plan.of([], lab, Report(lab.work.path / "none"))
    assert (nothing.seconds, nothing.disk, nothing.memory) == (0, 0, 0)
    nothing.check(lab.work.path)
    assert nothing.fits_in_memory


def test_measured_rates_are_used(lab: Lab) -> None:
    with lab.work.locked(A):
        lab.work.keep(A, {}, cpu_seconds=1.0)
    assert [each.seconds for each in Plan.of([C], lab, Report(lab.work.path / "none")).steps] == [1.0, 1.0]


def test_no_room(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    asked: list[Path] = []

    def with_room(free: float) -> None:
        def answer(path: Path) -> Any:
            asked.append(Path(path))
            return usage(0, 0, free)

        monkeypatch.setattr(shutil, "disk_usage", answer)

    class Large(Brick):
        def estimate(self) -> Estimate:
            return Estimate(1.0, disk=2.25e9)

    made = Plan.of([Large("b", (Large("a"),))], lab, Report(lab.work.path / "none"))
    with_room(4.5e9)
    made.check(lab.work.path)
    with_room(4.44e9)
    work = lab.work.path / "not" / "there"
    expected = rf"^The study needs about 4\.5 GB in {work}, where 4\.4 GB are free; make room.*domains or studies\.$"
    with pytest.raises(StudyError, match=expected):
        made.check(work)
    assert asked == [lab.work.path.parent] * 2, "the directory in which it will be made"


def test_memory(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Plan.of([D], lab, Report(lab.work.path / "none"))
    for there_is, fits in ((100, True), (99, False)):
        monkeypatch.setattr(plan, "machine_memory", lambda there_is=there_is: there_is)
        assert made.fits_in_memory == fits


def test_every_step_of_every_study_can_be_estimated(benchmark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "_has_comet", lambda: True)
    small, large = (setup_of(benchmark, model=replace(fake_model(), parameters=size)) for size in (10**6, 10**9))
    for study in STUDIES.values():
        steps = closure(study.steps(small))
        larger = closure(study.steps(large))
        assert steps
        for key, step in steps.items():
            estimate = step.estimate()
            assert step.title
            assert 0 < estimate.units < math.inf
            assert 0 < step.seconds_per_unit < math.inf
            assert 0 <= estimate.disk < math.inf
            assert 0 <= estimate.memory < math.inf
            assert estimate.disk + estimate.memory > 0
            if isinstance(step, Build | Translate):
                assert larger[key].estimate().units > estimate.units, "a larger model takes longer"


def test_a_larger_benchmark_takes_longer(benchmark: Path) -> None:
    setup = setup_of(benchmark)
    domain = setup.domains[1]
    whole = Collect(setup.store(domain), domain.test, 8)
    fewer = replace(whole, split=whole.split.first(1))
    assert fewer.estimate().units < whole.estimate().units
    assert fewer.estimate().disk < whole.estimate().disk
