"""What a report directory is of: several runs add to it; what does not belong to it is refused and changes nothing."""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_study import (
    DOMAINS,
    GZIPPED,
    HALVED,
    PLAIN,
    QUICK,
    MadeUp,
    fake_model,
    pairs_of,
    setup_of,
    write_benchmark,
    write_pairs,
)
from worlds import in_threads

from knnmt.datastore.files import write_json
from knnmt.decoding import Settings
from knnmt.errors import StudyError
from knnmt.study import STUDIES
from knnmt.study.kept_report import KeptReport, Scope
from knnmt.study.setup import Setup
from knnmt.study.studies import Study

Snapshot = dict[str, bytes]


def everything(directory: Path) -> Snapshot:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def write(report: KeptReport, setup: Setup) -> None:
    """The page of all its studies; they have all been run on the same domains."""
    report.write(lambda: {name: narrowed(setup, scopes) for name, scopes in report.studies.items() if name in STUDIES})


def narrowed(setup: Setup, scopes: dict[str, Scope]) -> Setup:
    domains = {name: setup.benchmark.domains[name].limited(scope.test_limit) for name, scope in scopes.items()}
    return replace(setup, benchmark=replace(setup.benchmark, domains=domains), seeds=dict.fromkeys(domains, 2))


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark)


@pytest.fixture
def out(tmp_path: Path, setup: Setup) -> Path:
    """A report of two studies."""
    path = tmp_path / "report"
    for name in ("lambda", "k"):
        KeptReport(path).add(STUDIES[name], setup, MadeUp())
    write(KeptReport(path), setup)
    return path


def test_what_is_kept(out: Path, setup: Setup) -> None:
    report = KeptReport(out)
    assert report.domains == list(DOMAINS)
    assert report.studies == {name: {each: Scope(None, 2) for each in DOMAINS} for name in ("lambda", "k")}
    for step in read(STUDIES["k"], setup):
        assert report.find(step) == MadeUp()(step)
    assert report.find(setup.store(setup.domains[0])) is None
    assert not (out / "lock").exists()


def test_a_study_that_is_run_again_replaces_itself(out: Path, setup: Setup) -> None:
    before = everything(out)
    shorter = narrowed(setup, dict.fromkeys(DOMAINS, Scope(2, 2)))
    better = MadeUp(bleu=lambda *_: 44.4)
    KeptReport(out).add(STUDIES["k"], shorter, better)
    write(KeptReport(out), setup)
    after = everything(out)
    assert KeptReport(out).studies["k"] == {each: Scope(2, 2) for each in DOMAINS}
    assert KeptReport(out).studies["lambda"] == {each: Scope(None, 2) for each in DOMAINS}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {"index.html", "study.json", "results/k.json", f"tables/k-{PLAIN}.csv"} <= changed
    assert not [name for name in changed if "lambda" in name]
    assert "44.4" in (out / "tables" / f"k-{PLAIN}.csv").read_text()
    shown = {step.key for step in (*read(STUDIES["k"], shorter), *read(STUDIES["lambda"], setup))}
    old = [step for step in read(STUDIES["k"], setup) if step.key not in shown]
    assert old
    assert not any(KeptReport(out).find(step) for step in old), "results that are no longer shown are not kept"


def read(study: Study, setup: Setup) -> list[Any]:
    made_up = MadeUp()
    study.section(setup, made_up)
    return made_up.read


def test_domains_are_added_in_several_runs(tmp_path: Path, setup: Setup) -> None:
    """In any order of studies; a study is always run on all domains that the report shows of it."""
    KeptReport(tmp_path / "one").add(STUDIES["lambda"], setup, MadeUp())
    KeptReport(tmp_path / "one").add(STUDIES["k"], setup, MadeUp())
    write(KeptReport(tmp_path / "one"), setup)
    for name, domains in (("k", DOMAINS[:1]), ("lambda", DOMAINS[:2]), ("k", DOMAINS), ("lambda", DOMAINS)):
        some = narrowed(setup, dict.fromkeys(domains, Scope(None, 2)))
        KeptReport(tmp_path / "many").add(STUDIES[name], some, MadeUp())
        write(KeptReport(tmp_path / "many"), setup)
    assert everything(tmp_path / "one") == everything(tmp_path / "many")


def other_texts(path: Path) -> Setup:
    write_benchmark(path)
    write_pairs(path / PLAIN, "dev", pairs_of(HALVED))
    return setup_of(path)


OTHERS: dict[str, tuple[Callable[[Setup, Path], Setup], str]] = {
    "another model": (
        lambda setup, _: replace(setup, model=fake_model("/models/of-yours", fingerprint="9876543210")),
        r"is a report on the model of-mine \(01234567, torch, float32\), not on of-yours \(98765432, torch, float32\)",
    ),
    "another precision": (
        lambda setup, _: replace(setup, model=fake_model(precision="int8")),
        r"of-mine \(01234567, torch, float32\), not on of-mine \(01234567, torch, int8\); give another --out\.$",
    ),
    "other texts": (lambda _, path: other_texts(path / "texts"), "other texts of the domain koran; give another --out"),
    "another preset": (
        lambda setup, _: replace(setup, preset=replace(QUICK, name="paper")),
        "is a report with the preset quick; give another --out",
    ),
    "other decoding": (
        lambda setup, _: replace(setup, decoding=Settings(beam=5).signature),
        r"is a report with the decoding beam:4\|.*; give another --out",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_belong_to_the_report(out: Path, setup: Setup, tmp_path: Path, name: str) -> None:
    change, expected = OTHERS[name]
    other = change(setup, tmp_path)
    before = everything(out)
    with pytest.raises(StudyError, match=expected) as caught:
        KeptReport(out).check(other)
    assert str(caught.value).endswith(".")
    with pytest.raises(StudyError, match=expected):
        KeptReport(out).add(STUDIES["k"], other, MadeUp())
    assert everything(out) == before


def test_what_belongs_to_the_report(out: Path, setup: Setup, tmp_path: Path) -> None:
    """The same model and texts in other places, fewer domains, more domains, another number of seeds."""
    report = KeptReport(out)
    copied = shutil.copytree(setup.benchmark.path, tmp_path / "copied")
    for other in (
        setup_of(copied, model=fake_model("elsewhere/of-mine")),
        setup_of(copied, [GZIPPED]),
        replace(setup, seeds=dict.fromkeys(DOMAINS, 7)),
    ):
        report.check(other)
    write_pairs(copied / "new", "train", pairs_of(PLAIN))
    write_pairs(copied / "new", "dev", pairs_of(PLAIN))
    report.check(setup_of(copied, ["new", PLAIN]))


def a_file(path: Path) -> None:
    path.write_text("my thesis")


def with_thesis(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("my thesis")


def thesis_beside_work(path: Path) -> None:
    (path / "work").mkdir(parents=True)
    (path / "thesis.txt").write_text("my thesis")


@pytest.mark.parametrize("make", [a_file, with_thesis, thesis_beside_work])
def test_a_directory_with_something_else(tmp_path: Path, setup: Setup, make: Callable[[Path], None]) -> None:
    path = tmp_path / "mine"
    make(path)
    before = everything(tmp_path)
    expected = r"mine is there already and is no report of a study; give another --out\.$"
    with pytest.raises(StudyError, match=expected):
        KeptReport(path).check(setup)
    assert everything(tmp_path) == before


def test_directories_that_a_report_may_be_in(tmp_path: Path, setup: Setup) -> None:
    KeptReport(tmp_path / "new").check(setup)
    (tmp_path / "empty").mkdir()
    KeptReport(tmp_path / "empty").check(setup)
    (tmp_path / "begun" / "work" / "build").mkdir(parents=True)
    KeptReport(tmp_path / "begun").check(setup)
    assert not (tmp_path / "new").exists()


def test_killed_while_the_first_study_is_added(tmp_path: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, value: Any) -> None:
        if path.name == "study.json":
            raise KeyboardInterrupt
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr("knnmt.study.kept_report.write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            KeptReport(tmp_path / "report").add(STUDIES["k"], setup, MadeUp())
    report = KeptReport(tmp_path / "report")
    report.check(setup)
    report.add(STUDIES["k"], setup, MadeUp())
    write(report, setup)
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("study.json", b"{", r"study\.json cannot be read; restore it, or give another --out"),
        ("study.json", b"\xff", "cannot be read"),
        ("study.json", b"[]", "cannot be read"),
        ("study.json", b"{}", r"study\.json is not of a study of this version; give another --out"),
        ("study.json", b'{"name": "a study of mice", "model": "mouse"}', "is not of a study"),
        ("results/k.json", b"{", r"results/k\.json cannot be read; restore it, or give another --out"),
        ("results/k.json", b"[]", r"results/k\.json cannot be read; restore it, or give another --out"),
    ],
)
def test_a_damaged_report(out: Path, name: str, content: bytes, expected: str) -> None:
    (out / name).write_bytes(content)
    before = everything(out)
    with pytest.raises(StudyError, match=expected):
        KeptReport(out)
    assert everything(out) == before


def test_a_scope_of_another_version(out: Path) -> None:
    about = json.loads((out / "study.json").read_text())
    about["studies"]["k"][PLAIN]["weather"] = "sunny"
    (out / "study.json").write_text(json.dumps(about))
    with pytest.raises(StudyError, match="is not of a study of this version"):
        KeptReport(out)


def test_results_that_are_gone_are_computed_again(out: Path, setup: Setup) -> None:
    (out / "results" / "k.json").unlink()
    report = KeptReport(out)
    others = {step.key for step in read(STUDIES["lambda"], setup)}
    for step in (*read(STUDIES["k"], setup), *read(STUDIES["lambda"], setup)):
        assert (report.find(step) is not None) == (step.key in others)


def test_results_of_another_version(
    out: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys have changed: the section is left out, and comes back when the study is run again."""
    before = everything(out)
    kinds = {type(step) for step in read(STUDIES["lambda"], setup)}
    for kind in kinds:
        monkeypatch.setattr(kind, "version", kind.version + 1)
    changed = setup_of(setup.benchmark.path)  # keys are remembered
    with caplog.at_level(logging.WARNING, "knnmt"):
        write(KeptReport(out), changed)
    assert [record.getMessage() for record in caplog.records] == [
        f"the results of the study {name} are of another version of knnmt; run it again." for name in ("lambda", "k")
    ]
    after = everything(out)
    assert "How many neighbours?" not in after["index.html"].decode()
    kept = {name for name in before if name.startswith(("results/", "study.json"))}
    assert {name: before[name] for name in kept} == {name: after[name] for name in kept}
    caplog.clear()
    for name in ("lambda", "k"):
        KeptReport(out).add(STUDIES[name], changed, MadeUp())
    write(KeptReport(out), changed)
    assert not caplog.records
    again = everything(out)
    assert {name: again[name] for name in again if not name.startswith("results/")} == {
        name: before[name] for name in before if not name.startswith("results/")
    }


def test_a_study_that_this_version_does_not_know(out: Path, setup: Setup) -> None:
    about = json.loads((out / "study.json").read_text())
    about["studies"]["weather"] = about["studies"]["k"]
    (out / "study.json").write_text(json.dumps(about))
    report = KeptReport(out)
    report.add(STUDIES["lambda"], setup, MadeUp())
    write(report, setup)
    assert list(KeptReport(out).studies) == ["lambda", "k", "weather"], "and nothing of it is lost"


def test_runs_at_once(tmp_path: Path, setup: Setup) -> None:
    """Each adds other studies; the page that is written last has all of them."""
    names = ["main", "lambda", "k", "offdomain"]
    reports = [KeptReport(tmp_path / "report") for _ in names]

    def add(number: int) -> None:
        reports[number].add(STUDIES[names[number]], setup, MadeUp())
        write(reports[number], setup)

    in_threads(add)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert all(STUDIES[name].title in page for name in names)
    assert list(KeptReport(tmp_path / "report").studies) == names
    for name in names:
        KeptReport(tmp_path / "one").add(STUDIES[name], setup, MadeUp())
    write(KeptReport(tmp_path / "one"), setup)
    assert everything(tmp_path / "one") == everything(tmp_path / "report")


def test_runs_at_once_of_one_study(tmp_path: Path, setup: Setup) -> None:
    """On other domains, begun when none of them was in the report."""
    reports = [KeptReport(tmp_path / "report") for _ in DOMAINS]
    for domain, report in zip(DOMAINS, reports, strict=True):
        report.add(STUDIES["k"], narrowed(setup, {domain: Scope(None, 2)}), MadeUp())
        write(report, setup)
    KeptReport(tmp_path / "one").add(STUDIES["k"], setup, MadeUp())
    write(KeptReport(tmp_path / "one"), setup)
    assert everything(tmp_path / "one") == everything(tmp_path / "report")


def test_runs_at_once_of_two_models(tmp_path: Path, setup: Setup) -> None:
    """Both begin with an empty directory: the second may not mix its results with the first's."""
    one, two = (KeptReport(tmp_path / "report") for _ in range(2))
    other = replace(setup, model=fake_model(fingerprint="9876543210"))
    one.check(setup)
    two.check(other)
    one.add(STUDIES["k"], setup, MadeUp())
    before = everything(tmp_path)
    with pytest.raises(StudyError, match="is a report on the model of-mine"):
        two.add(STUDIES["k"], other, MadeUp())
    assert everything(tmp_path) == before


def test_the_name_of_the_model_is_no_path(out: Path) -> None:
    """A report may be published."""
    for name, content in everything(out).items():
        assert b"/models/" not in content, name
    assert json.loads((out / "study.json").read_text())["name"] == "of-mine"
