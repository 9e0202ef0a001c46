"""Studies from beginning to end on the tiny benchmark."""

import html
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES
from tiny_study import DOMAINS, GZIPPED, HALVED, PLAIN, TEST, open_run, write_benchmark, write_pairs

from knnmt.errors import StudyError
from knnmt.study import STUDIES, Run
from knnmt.study.lab import Lab
from knnmt.study.step import Result, Step
from knnmt.study.work import RESULT


def files(directory: Path) -> dict[str, bytes]:
    """What a report shows: everything but the kept results, which have times, and the working directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.relative_to(directory).parts[0] not in ("work", "results")
    }


def test_all(studied: Any) -> None:
    assert studied.studies >= set(STUDIES) - {"quantised", "finetune"}
    assert all(not run.plan.steps for run in studied.runs)
    times = Counter(step.key for step in studied.executed)
    assert max(times.values()) == 1, "each step once, though studies have many in common"
    for run in studied.runs:
        for study in run.studies:
            assert {step.key for step in study.steps(run.setups[study.name])} <= times.keys()


def test_the_files_of_a_report(studied: Any) -> None:
    names = {name for name in files(studied.out) if not name.startswith(("tables/", "figures/"))}
    assert names == {"index.html", "claims.json", "claims.md", "study.json"}
    kept = json.loads((studied.out / "study.json").read_text())
    assert set(kept["studies"]) == {path.stem for path in (studied.out / "results").iterdir()} == studied.studies
    assert {name: list(domains) for name, domains in kept["studies"].items() if name in ("main", "k", "finetune")} == {
        "main": list(DOMAINS),
        "k": [HALVED],
        **({"finetune": [PLAIN, HALVED]} if "finetune" in studied.studies else {}),
    }
    page = (studied.out / "index.html").read_text(encoding="utf-8")
    for name in studied.studies:
        assert html.escape(STUDIES[name].title) in page
    for name in files(studied.out):
        if name.startswith("tables/") and name.endswith(".json"):
            assert html.escape(json.loads((studied.out / name).read_text())["title"]) in page
    assert "it has no test set: the first half of dev (3) fits, the second half (3 sentences) scores." in page
    assert "koran: the test set (3 sentences)." in page


def test_no_sentence_is_in_the_report(studied: Any) -> None:
    """Neither of the benchmark nor a translation; a report can be published."""
    sentences = {line for pair in SENTENCES for line in pair}
    for path in (studied.work / "translations").glob(f"*/{RESULT}"):
        sentences |= set(json.loads(path.read_text())["translations"])
    long = [sentence for sentence in sentences if len(sentence) > 12]
    assert len(long) > len(SENTENCES)
    outside = [path for path in studied.out.rglob("*") if path.is_file() and studied.work not in path.parents]
    assert len(outside) > 20
    for path in outside:
        text = path.read_text(encoding="utf-8")
        forms = (text, html.unescape(text))
        assert not [sentence for sentence in long if any(sentence in form for form in forms)], path


def test_the_work_can_be_removed(studied: Any, tmp_path: Path) -> None:
    """The report is written again from its own results."""
    out = tmp_path / "report"
    shutil.copytree(studied.out, out, ignore=shutil.ignore_patterns("work"))
    before = files(out)
    (out / "index.html").unlink()
    run = open_run(studied.benchmark, studied.model, out, only=["main", "lambda"])
    assert (len(run.plan.steps), run.plan.done > 0) == (0, True)
    run.finish()
    assert files(out) == before


def test_runs_with_one_working_directory_compute_nothing_twice(
    studied: Any, tmp_path: Path, executed: list[Step]
) -> None:
    """Several runs, each with other studies and domains, give the report that one run gives."""
    studied.open(tmp_path / "one", only=["main", "lambda"]).finish()
    parts: list[dict[str, Any]] = [
        {"only": ["lambda"], "domains": [HALVED]},
        {"only": ["main"], "domains": [HALVED, PLAIN]},
        {"only": ["main"], "domains": [GZIPPED]},
        {"only": ["lambda"], "domains": [PLAIN, GZIPPED]},
    ]
    for options in parts:
        studied.open(tmp_path / "many", **options).finish()
    assert not executed
    assert files(tmp_path / "one") == files(tmp_path / "many")
    for name in ("main", "lambda"):
        one, many = ((tmp_path / each / "results" / f"{name}.json").read_bytes() for each in ("one", "many"))
        assert json.loads(one) == json.loads(many)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_benchmark(tmp_path_factory.mktemp("small"), [PLAIN])


@pytest.mark.to_the_bit
def test_an_interrupted_run_goes_on(
    studied: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executed: list[Step]
) -> None:
    """Interrupted before, in and after steps, it ends with the same report, and no step is run twice."""
    studied.open(tmp_path / "whole", only=["main"], domains=[PLAIN]).finish()
    out = tmp_path / "report"
    run = Lab.run
    begun: list[str] = []
    stops = {3: "before", 8: "after", 12: "within"}

    def stopping(self: Lab, step: Step) -> Result:
        begun.append(step.key)
        how = stops.pop(len(begun), None)
        if how == "before":
            raise KeyboardInterrupt
        if how == "within":
            with monkeypatch.context() as patch:
                patch.setattr(self.work, "keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                return run(self, step)
        result = run(self, step)
        if how == "after":
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Lab, "run", stopping)

    def go() -> Run:
        """What the command does."""
        opened = open_run(small, studied.model, out, only=["main"])
        opened.finish()
        return opened

    planned = open_run(small, studied.model, out, only=["main"]).plan
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            go()
        assert not (out / "index.html").exists()
    opened = go()
    assert not stops
    assert files(out) == files(tmp_path / "whole")
    counts = Counter(step.key for step in executed)
    assert set(counts.values()) == {1}
    assert counts.keys() == {each.step.key for each in planned.steps}
    assert not opened.plan.steps
    assert len(begun) == len(planned.steps) + 2, "only what was interrupted is begun again"


Titles = Callable[[Run], Counter[str]]


@pytest.fixture
def planned(studied: Any, tmp_path: Path) -> Callable[..., Counter[str]]:
    """The kinds of the steps that a run with other options has to do."""

    def plan(**options: Any) -> Counter[str]:
        return Counter(each.step.kind for each in studied.open(tmp_path / "other", **options).plan.steps)

    return plan


def test_what_a_changed_option_changes(planned: Callable[..., Counter[str]]) -> None:
    assert planned(only=["main"]) == {}
    systems, methods = 4, 3
    fewer = planned(only=["main"], test_limit=2)
    of_test = {"translations": systems, "scores": 1, "features": 2, "judge": methods}
    assert fewer == {kind: len(DOMAINS) * number for kind, number in of_test.items()}
    assert planned(only=["main"], test_limit=TEST) == {}
    assert planned(only=["main"], domains=[PLAIN], test_limit=2) == of_test
    trained = 1 + 7  # adaptive and the rows of robust
    more = planned(only=["ablation"], domains=[HALVED], seeds=3)
    assert more == {"fit": trained, "translations": trained, "judge": trained, "scores": 1}
    assert planned(only=["ablation"], domains=[HALVED], seeds=1) == {"scores": 1}


def test_a_changed_text_changes_what_depends_on_it(studied: Any, tmp_path: Path) -> None:
    changed = shutil.copytree(studied.benchmark, tmp_path / "changed")
    write_pairs(changed / PLAIN, "test", SENTENCES[:4])
    run = open_run(changed, studied.model, tmp_path / "other", only=["main", "lambda"], work=studied.work)
    assert {each.step.kind for each in run.plan.steps} == {"translations", "scores", "features", "judge"}
    assert all(PLAIN in each.step.title for each in run.plan.steps if each.step.kind != "judge")
    write_pairs(changed / GZIPPED, "train", SENTENCES[:20], gzipped=True)
    run = open_run(changed, studied.model, tmp_path / "other", only=["main"], domains=[GZIPPED], work=studied.work)
    kinds = Counter(each.step.kind for each in run.plan.steps)
    assert kinds == {"build": 1, "features": 4, "fit": 3, "translations": 3, "scores": 1, "judge": 3}


def test_a_lost_store_is_built_again_where_it_is_needed(studied: Any, tmp_path: Path) -> None:
    """Nothing of a finished study needs it; another study does."""
    work = tmp_path / "work"
    shutil.copytree(studied.work, work)
    shutil.rmtree(work / "stores")

    def kinds(**options: Any) -> Counter[str]:
        run = open_run(studied.benchmark, studied.model, tmp_path / "other", work=work, domains=[PLAIN], **options)
        return Counter(each.step.kind for each in run.plan.steps)

    assert kinds(only=["main"]) == {}
    assert kinds(only=["k"])["build"] == 1
    assert kinds(only=["k"])["view"] == 0
    assert kinds(only=["confidence"]) == {
        "build": 1,
        "view": 6,
        "features": 6,
        "fit": 12,
        "translations": 30,
        "scores": 1,
    }


def test_the_engine_that_was_asked_for(studied: Any) -> None:
    """Also for translations."""
    scores = json.loads((studied.out / "tables" / "main-bleu.json").read_text())
    signatures = [cell["signature"] for row in scores["rows"] for cell in row if "signature" in cell]
    assert len(signatures) == 4 * len(DOMAINS)
    assert all("|engine:torch-float32|" in signature for signature in signatures)


def test_inputs_are_run_first(studied: Any) -> None:
    position = {step.key: number for number, step in enumerate(studied.executed)}
    for step in studied.executed:
        assert all(position[needed.key] < position[step.key] for needed in step.inputs())


def test_a_page_has_what_another_run_has_added_meanwhile(studied: Any, tmp_path: Path) -> None:
    """Also of domains that this run does not know, and of the same study."""
    one = studied.open(tmp_path / "report", only=["lambda"], domains=[PLAIN])
    two = studied.open(tmp_path / "report", only=["main", "lambda"], domains=[HALVED])
    two.finish()
    one.finish()
    shown = set(files(tmp_path / "report"))
    assert {"tables/main-bleu.csv", f"tables/lambda-{PLAIN}.csv", f"tables/lambda-{HALVED}.csv"} <= shown
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert all(STUDIES[name].title in page for name in ("main", "lambda"))
    assert not studied.open(tmp_path / "report", only=["main", "lambda"], domains=[HALVED]).plan.steps


def test_studies_that_need_other_domains(
    studied: Any, small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Left out if all studies are asked for, refused if they are asked for, and run with the report's domains."""
    out = tmp_path / "report"
    run = open_run(small, studied.model, out)
    names = [study.name for study in run.studies]
    assert names == [name for name in STUDIES if name != "offdomain"]
    with pytest.raises(
        StudyError, match=r"^The study offdomain cannot be run on koran alone; choose more --domains\.$"
    ):
        open_run(small, studied.model, out, only=["lambda", "offdomain"])
    studied.open(out, only=["lambda"], domains=[PLAIN]).finish()
    assert not caplog.records
    studied.open(out, only=["offdomain"]).finish()
    again = studied.open(out, only=["offdomain"], domains=[PLAIN])
    assert list(again.setups["offdomain"].benchmark.domains) == list(DOMAINS)
    assert not again.plan.steps


def test_several_scopes_in_one_report(studied: Any, tmp_path: Path) -> None:
    """A domain keeps its number of test sentences and seeds while others are added with other ones."""
    out = tmp_path / "report"
    studied.open(out, only=["lambda"], domains=[PLAIN]).finish()
    run = studied.open(out, only=["lambda"], domains=[GZIPPED], test_limit=2)
    limits = {name: domain.test_limit for name, domain in run.setups["lambda"].benchmark.domains.items()}
    assert limits == {PLAIN: None, GZIPPED: 2}
    run = studied.open(out, only=["lambda"], domains=[PLAIN], test_limit=2)
    assert {name: domain.test_limit for name, domain in run.setups["lambda"].benchmark.domains.items()} == {PLAIN: 2}
    ablation = studied.open(out, only=["ablation"], domains=[PLAIN], seeds=5)
    assert ablation.setups["ablation"].seeds == {PLAIN: 5}
    assert ablation.setups["lambda"].seeds == {PLAIN: 2}
