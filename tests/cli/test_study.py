"""`knnmt study`: what it prints, what it writes, and what it refuses."""

import json
import re
import shutil
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny_study import DOMAINS, PLAIN, QUICK, pairs_of, write_benchmark, write_pairs

from knnmt.evaluation import score_systems
from knnmt.model import TranslationModel
from knnmt.study.lab import Lab
from knnmt.study.presets import PRESETS
from knnmt.study.step import Result, Step

Run = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a benchmark, where commands run; trainings are short."""
    monkeypatch.setitem(PRESETS, QUICK.name, QUICK)
    monkeypatch.setattr("knnmt.study.steps.translate.score_systems", partial(score_systems, resamples=20))
    write_benchmark(tmp_path / "place" / "texts")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


@pytest.fixture
def study(run: Run, model_name: str) -> Run:
    """The command, with the model."""
    given = ("--model", model_name, "--out", "report", "--engine", "torch")
    return lambda *arguments: run("study", "texts", *given, *arguments)


def test_a_dry_run_lists_the_steps(place: Path, study: Run, snapshot: Snapshot) -> None:
    before = snapshot(place)
    result = study("--dry-run", "--only", "main,k", "--domains", PLAIN)
    lines = result.out.splitlines()
    assert (result.code, result.complaints) == (0, [f"{len(lines) - 2} steps to do, 0 done."]), result.err
    assert re.split(r" {2,}", lines[0].strip()) == ["step", "CPU-minutes", "disk", "memory"]
    assert lines[1].strip().startswith("Build the store of koran ")
    assert lines[-1].strip().startswith("in all ")
    assert sum("Score " in line for line in lines) == 2
    assert sum("Fit robust on koran dev (" in line for line in lines) == 4, "one for each K"
    for line in lines[1:]:
        assert re.search(r"  +[\d,]+\.\d  +[\d,.]+ [kMG]?B  +[\d,.]+ [kMG]?B *$", line), line
    assert snapshot(place) == before, "nothing is written"


def test_a_dry_run_as_json(place: Path, study: Run, snapshot: Snapshot) -> None:
    before = snapshot(place)
    result = study("--dry-run", "--json", "--only", "main", "--test-limit", "2")
    assert (result.code, result.err) == (0, "")
    value = json.loads(result.out)
    assert (value["done"], len(value["steps"])) == (0, 16 * len(DOMAINS))
    titles = [each["step"] for each in value["steps"]]
    assert "Build the store of koran" in titles
    assert "Translate koran test, lines 1–2, with robust" in titles
    assert "Translate it dev, lines 4–5, with the model alone" in titles
    for name, total in (("cpu_seconds", sum), ("disk", sum), ("memory", max)):
        amounts = [each[name] for each in value["steps"]]
        assert min(amounts) >= 0
        assert value["total"][name] == pytest.approx(total(amounts))
        assert value["total"][name] > 0
    assert snapshot(place) == before, "nothing is written"


def test_from_the_beginning_to_the_end(place: Path, study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted, continued, extended, and asked for once more."""
    run_step = Lab.run
    left = iter(range(9))

    def interrupted(self: Lab, step: Step) -> Result:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return run_step(self, step)

    options = ("--preset", "quick", "--domains", PLAIN, "--test-limit", "2")
    with monkeypatch.context() as patch:
        patch.setattr(Lab, "run", interrupted)
        stopped = study(*options, "--only", "main", "--json")
    assert (stopped.code, stopped.out) == (130, "")
    assert "Interrupted" in stopped.err
    result = study(*options, "--only", "main", "--json")
    assert result.code == 0, result.err
    page = str(Path("report", "index.html"))
    done = json.loads(result.out)
    assert (done["report"], done["steps"], done["done_before"] > 0) == (page, 16 - 9, True)
    result = study(*options, "--only", "main,lambda")
    assert result.code == 0, result.err
    assert re.search(r"steps +0 done now, \d+ before *\n", result.out)
    assert re.search(rf"report +{page} *\n", result.out)
    text = Path(page).read_text(encoding="utf-8")
    assert "koran: the first 2 of 3 sentences of the test set." in text
    assert "How far is the memory trusted?" in text
    dry = json.loads(study(*options, "--dry-run", "--json", "--only", "main").out)
    assert (dry["steps"], dry["total"]["cpu_seconds"]) == ([], 0)


Change = Callable[[Path], object]


def no_change(place: Path) -> None:
    """Nothing is wrong with the benchmark."""


def move_away(place: Path) -> Path:
    return (place / "texts").rename(place / "moved")


def only_a_domain(place: Path) -> None:
    (move_away(place) / PLAIN).rename(place / "texts")


def halve(place: Path) -> None:
    for path in (place / "texts" / PLAIN).glob("test.*"):
        path.unlink()
    write_pairs(place / "texts" / PLAIN, "dev", pairs_of(PLAIN)[:1])


def thesis(place: Path) -> None:
    (place / "report").mkdir()
    (place / "report" / "thesis.txt").write_text("my thesis")


BAD: dict[str, tuple[Change, tuple[str, ...], str]] = {
    "no benchmark": (move_away, (), "^There is no directory texts; give one"),
    "no domains": (
        only_a_domain,
        (),
        r"^texts holds no domain for this model; give a directory of folders, each with train\.de",
    ),
    "unknown domain": (no_change, ("--domains", "koran,news"), "^texts holds no domain news; it has it, koran, law"),
    "no dev file": (
        lambda place: (place / "texts" / PLAIN / "dev.en").unlink(),
        (),
        r"^texts/koran has no dev\.en; add it, or leave the domain out",
    ),
    "different lengths": (
        lambda place: (place / "texts" / PLAIN / "test.en").write_text("One.\n"),
        (),
        r"^texts/koran/test\.de has 3 lines but texts/koran/test\.en has 1",
    ),
    "dev too short": (halve, (), "^texts/koran has no test file, and its dev file is too short to be halved"),
    "unknown study": (no_change, ("--only", "main,pruned"), "^There is no study pruned; choose one of main, "),
    "unknown preset": (no_change, ("--preset", "papers"), "^There is no preset papers; choose one of tuned, paper"),
    "one domain": (
        no_change,
        ("--only", "offdomain", "--domains", PLAIN),
        "^The study offdomain cannot be run on koran alone; choose more --domains",
    ),
    "something else": (thesis, (), "^report is there already and is no report of a study; give another --out"),
    "a file": (
        lambda place: (place / "report").write_text("my thesis"),
        (),
        "^report is there already and is no report of a study; give another --out",
    ),
    "unknown engine": (no_change, ("--engine", "steam"), "^There is no engine steam; choose one of"),
    "unknown precision": (no_change, ("--precision", "int4"), "^There is no precision int4; choose one of"),
    "no model": (no_change, ("--model", "./gone"), r"^There is no model directory \./gone; check the path"),
}


def refused(result: Any, expected: str) -> None:
    assert result.code == 2, result.err
    assert result.out == ""
    assert len(result.complaints) == 1, result.err
    sentence = result.complaints[0].removeprefix("knnmt: ")
    assert re.search(expected, sentence), sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert not re.search(r"\.\s+[A-Z]", sentence), f"more than one sentence: {sentence}"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry-run"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input(place: Path, study: Run, snapshot: Snapshot, name: str, dry: tuple[str, ...]) -> None:
    change, arguments, expected = BAD[name]
    change(place)
    before = snapshot(place)
    refused(study(*arguments, *dry), expected)
    assert snapshot(place) == before, "something was written or lost"


def test_no_model_is_named(place: Path, run: Run, snapshot: Snapshot) -> None:
    before = snapshot(place)
    refused(run("study", "texts", "--out", "report"), "^Say which model is to be studied with --model")
    assert snapshot(place) == before


def test_a_model_that_does_not_say_its_languages(
    place: Path, run: Run, snapshot: Snapshot, family_directory: Callable[[str], Path]
) -> None:
    before = snapshot(place)
    result = run("study", "texts", "--out", "report", "--model", str(family_directory("t5")), "--engine", "torch")
    refused(result, "does not say its languages; give --source-lang and --target-lang")
    assert snapshot(place) == before


@pytest.mark.parametrize("option", [("--seeds", "0"), ("--test-limit", "0"), ("--test-limit", "x")], ids=" ".join)
def test_numbers_that_make_no_sense(place: Path, study: Run, snapshot: Snapshot, option: tuple[str, str]) -> None:
    before = snapshot(place)
    result = study(*option)
    assert (result.code, result.out) == (2, "")
    assert option[0] in result.err
    assert snapshot(place) == before


def test_no_room_on_the_disk(place: Path, study: Run, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 1))
    before = snapshot(place)
    expected = (
        r"^The study needs about [\d.]+ GB in report/work, where 0\.0 GB are free; make room, give another --work"
    )
    refused(study("--only", "main"), expected)
    assert snapshot(place) == before
    assert study("--only", "main", "--dry-run").code == 0, "shows what it would need"


def test_a_report_of_something_else(
    place: Path, study: Run, run: Run, snapshot: Snapshot, family_directory: Callable[[str], Path]
) -> None:
    """Another model, other texts, another preset: the report stays as it is."""
    assert study("--preset", "quick", "--domains", PLAIN, "--only", "lambda", "--work", "../work").code == 0
    before = snapshot(place)
    other = str(family_directory("fsmt"))
    common = ("--only", "lambda", "--out", "report", "--engine", "torch")
    refused(
        run("study", "texts", "--model", other, "--preset", "quick", *common),
        r"^report is a report on the model marian \(.*, torch, float32\), not on fsmt \(.*\); give another --out",
    )
    refused(study("--only", "lambda"), "^report is a report with the preset quick; give another --out")
    assert snapshot(place) == before
    write_pairs(place / "texts" / PLAIN, "dev", pairs_of(PLAIN)[3:6])
    before = snapshot(place)
    refused(
        study("--preset", "quick", "--only", "main"),
        "^report is a report on other texts of the domain koran; give another --out",
    )
    (place / "texts" / PLAIN).rename(place / "texts" / "hidden")
    refused(study("--preset", "quick", "--domains", "law"), "^texts holds no domain koran; it has hidden, it, law")
    (place / "texts" / "hidden").rename(place / "texts" / PLAIN)
    assert snapshot(place) == before


def test_too_little_memory_is_said(place: Path, study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knnmt.study.plan.machine_memory", lambda: 1000)
    monkeypatch.setattr(Lab, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    result = study("--only", "main")
    assert re.search(r"^warning: a step may need [\d.]+ GB of memory, more than this machine has\.$", result.err, re.M)


def test_options_reach_the_run(place: Path, study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def opened(*arguments: Any, **options: Any) -> Any:
        asked.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("knnmt.study.Run.open", opened)
    monkeypatch.setattr(TranslationModel, "load", lambda *_, **__: pytest.fail("a model was loaded"))
    study(
        *("--only", "main, k", "--domains", "it,law,", "--seeds", "5", "--test-limit", "7", "--work", "w"),
        *("--source-lang", "de", "--target-lang", "en", "--batch-size", "3", "--device", "cpu", "--precision", "int8"),
    )
    assert (asked["only"], asked["domains"]) == (["main", "k"], ["it", "law"])
    assert (asked["seeds"], asked["test_limit"], asked["work"]) == (5, 7, Path("w"))
    assert (asked["source_lang"], asked["target_lang"]) == ("de", "en")
    assert (asked["engine"], asked["precision"], asked["device"]) == ("torch", "int8", "cpu")
    assert (asked["settings"].batch_size, asked["settings"].split, asked["settings"].beam) == (3, False, 4)
