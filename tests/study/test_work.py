"""Kept results: found again, also by others and after damage."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from worlds import in_threads

from knnmt.decoding import Settings
from knnmt.errors import StoreError
from knnmt.model import TranslationModel
from knnmt.study.lab import Lab
from knnmt.study.step import Estimate, MissingResult, Result, Step
from knnmt.study.work import RESULT, Work

RUNS: list[int] = []


@dataclass(frozen=True)
class Square(Step):
    """Its result is in two parts."""

    kind: ClassVar[str] = "square"
    seconds_per_unit: ClassVar[float] = 1.0

    number: int

    @property
    def title(self) -> str:
        return f"The square of {self.number}"

    def estimate(self) -> Estimate:
        return Estimate(float(self.number))

    def is_there(self, lab: Lab) -> bool:
        return (lab.work.directory(self) / "part").is_file()

    def run(self, lab: Lab) -> Result:
        RUNS.append(self.number)
        (lab.work.directory(self) / "part").write_text("larger")
        return {"square": self.number**2}


@pytest.fixture
def open_lab(tmp_path: Path, model: TranslationModel) -> Callable[[], Lab]:
    """Labs of several runs that share a directory."""
    RUNS.clear()
    return lambda: Lab(Work(tmp_path / "work"), model, Settings(), engine="torch")


OpenLab = Callable[[], Lab]


def test_a_result_is_kept(open_lab: OpenLab) -> None:
    one, other, later = open_lab(), open_lab(), open_lab()
    step = Square(7)
    assert one.work.find(step) is None
    with pytest.raises(MissingResult, match="The square of 7 has not run"):
        one.result(step)
    assert other.work.find(step) is None
    result = one.run(step)
    assert one.result(step) == other.result(step) == later.result(step) == result, "whoever has looked for it before"
    assert result["square"] == 49
    assert (result["step"], result["units"]) == ("The square of 7", 7.0)
    assert result["step_seconds"] >= 0
    assert one.work.find(Square(8)) is None
    assert one.work.directory(step) == one.work.path / "square" / step.key
    assert sorted(path.name for path in one.work.directory(step).iterdir()) == ["part", RESULT]


@pytest.mark.parametrize("damage", [b"", b'{"square": 4', b"[49]", b"49", b'"square"', b"null", b"\xff\xfe{}", b"{}"])
def test_a_damaged_result_is_computed_again(open_lab: OpenLab, damage: bytes) -> None:
    step = Square(7)
    file = open_lab().work.directory(step) / RESULT
    open_lab().run(step)
    file.write_bytes(damage)
    assert open_lab().work.find(step) is None
    assert open_lab().work.rates(step.kind) is None
    open_lab().run(step)
    assert open_lab().result(step)["square"] == 49
    assert RUNS == [7, 7]


def test_a_half_made_result_is_computed_again(open_lab: OpenLab) -> None:
    """Killed in the step, or while its result was written."""
    step = Square(7)
    directory = open_lab().work.directory(step)
    directory.mkdir(parents=True)
    (directory / "part").write_text("half")
    (directory / f"{RESULT}.new").write_text('{"square": 4')
    (directory / "lock").touch()
    assert open_lab().work.find(step) is None
    assert open_lab().run(step)["square"] == 49
    assert (directory / "part").read_text() == "larger"


def test_rates(open_lab: OpenLab) -> None:
    work = open_lab().work
    assert work.rates("square") is None

    def keep(number: int, seconds: float) -> None:
        with work.locked(Square(number)):
            work.keep(Square(number), {}, seconds)

    keep(10, 5.0)
    keep(30, 35.0)
    assert work.rates("square") == pytest.approx(1.0), "seconds over units, of all together"
    assert work.rates("another") is None
    (work.directory(Square(10)) / RESULT).write_text("[]")
    assert work.rates("square") == pytest.approx(35 / 30)
    for unusable in ("{}", '{"step_seconds": null, "units": 1}', '{"step_seconds": 1, "units": "x"}', "half"):
        (work.directory(Square(10)) / RESULT).write_text(unusable)
        assert work.rates("square") == pytest.approx(35 / 30)
    keep(0, 0.0)
    (work.directory(Square(30)) / RESULT).unlink()
    assert work.rates("square") is None, "nothing was done"


def test_runs_at_once_compute_each_step_once(open_lab: OpenLab) -> None:
    steps = [Square(number) for number in range(25)]

    def study(number: int) -> list[int]:
        lab = open_lab()
        order = steps if number % 2 else steps[::-1]
        return sorted(lab.run(step)["square"] for step in order)

    expected = [number**2 for number in range(25)]
    assert in_threads(study) == [expected] * 4
    assert sorted(RUNS) == list(range(25))


def test_who_comes_second_waits(open_lab: OpenLab, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    run = Square.run

    def slow(self: Square, lab: Lab) -> Result:
        begun.set()
        assert go_on.wait(20)
        return run(self, lab)

    monkeypatch.setattr(Square, "run", slow)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(open_lab().run(Square(3)))) for _ in range(2)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert [result["square"] for result in results] == [9, 9]
    assert RUNS == [3]


def test_larger_parts_that_are_gone_are_made_again(open_lab: OpenLab) -> None:
    """The kept result does not stand in for them."""
    lab, step = open_lab(), Square(5)
    lab.run(step)
    (lab.work.directory(step) / "part").unlink()
    lab.run(step)
    assert step.is_there(lab)
    assert RUNS == [5, 5]


def test_a_step_that_fails_leaves_no_result(open_lab: OpenLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Square, lab: Lab) -> Result:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Square, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            open_lab().run(Square(2))
    assert open_lab().work.find(Square(2)) is None
    assert open_lab().run(Square(2))["square"] == 4


def test_a_directory_that_cannot_be_written(tmp_path: Path, model: TranslationModel) -> None:
    (tmp_path / "work").write_text("a file")
    lab = Lab(Work(tmp_path / "work"), model, Settings(), engine="torch")
    with pytest.raises(StoreError, match=r"^cannot write .*: Not a directory; "):
        lab.run(Square(1))


def test_results_are_json(open_lab: OpenLab) -> None:
    lab = open_lab()
    lab.run(Square(7))
    kept = json.loads((lab.work.directory(Square(7)) / RESULT).read_text(encoding="utf-8"))
    assert kept == lab.result(Square(7))
    assert kept.keys() >= {"square", "step", "units", "step_seconds", "processor", "versions", "finished"}
