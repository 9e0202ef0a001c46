"""Fine-tuning: its models, and what they cost."""

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from naive_study import translated
from tiny_study import HALVED, PLAIN, MadeUp, scored_pairs, setup_of
from worlds import load

from knnmt.errors import StudyError
from knnmt.finetuning import FinetuneReport
from knnmt.model import TranslationModel
from knnmt.study.plan import Plan
from knnmt.study.steps import Build, Collect, Finetune, Fit
from knnmt.study.steps import finetune as steps
from knnmt.study.steps.finetune import cpu_seconds
from knnmt.study.studies.finetune import FineTune

FINETUNE = FineTune()
ENDS = ["fine-tuned, to the end", "LoRA, to the end"]
WAYS = ["base", "robust", "fine-tuned, same time", "LoRA, same time"]


def rows_of(studied: Any, domain: str) -> dict[str, dict[str, Any]]:
    shown = json.loads((studied.out / "tables" / f"finetune-{domain}.json").read_text())
    return {row[0]["text"]: dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}


@pytest.mark.to_the_bit
def test_the_table(studied: Any) -> None:
    """Translations of the fine-tuned models, in and off the domain; and what it took to make them."""
    pytest.importorskip("peft")
    run = studied.runs[2]
    setup = run.setups["finetune"]
    koran, it = (rows_of(studied, domain) for domain in (PLAIN, HALVED))
    assert list(koran) == [*WAYS, *ENDS, "fine-tuned, to the end, and robust"]
    assert list(it) == [*WAYS, "fine-tuned, same time, and robust"]
    assert list(koran["base"])[1:3] == [f"BLEU {PLAIN}", f"BLEU {HALVED}"]
    assert list(it["base"])[1:3] == [f"BLEU {HALVED}", f"BLEU {PLAIN}"]
    domain = setup.benchmark.domains[PLAIN]
    learnt = {}
    for way in FINETUNE._ways(setup, domain):
        if way.tuned is None or way.knn:
            continue
        path = run.lab.work.directory(way.tuned) / "model"
        model = load("marian", path)
        for test in (PLAIN, HALVED):
            sources, references = ([pair[side] for pair in scored_pairs(test)] for side in (0, 1))
            lines = translated(model, sources, None, None)  # type: ignore[arg-type]
            expected = sacrebleu.corpus_bleu(lines, [references]).score
            assert koran[way.label][f"BLEU {test}"]["value"] == pytest.approx(expected)
        report = json.loads((path / "finetune.json").read_text())
        assert koran[way.label]["MB"]["value"] == pytest.approx(report["bytes"] / 1e6)
        assert koran[way.label]["CPU-minutes"]["value"] == pytest.approx(report["cpu_seconds"] / 60)
        assert f"|model:{model.fingerprint[:8]}" in koran[way.label][f"BLEU {PLAIN}"]["signature"]
        assert koran[way.label]["updates"]["value"] == report["updates"]
        assert koran[way.label]["epochs"]["value"] == report["epochs"]
        assert koran[way.label]["dev NLL"]["value"] == min(each["nll"] for each in report["history"])
        learnt[way.label] = report["best"]["update"] > 0
        assert (model.fingerprint != studied.model.fingerprint) == learnt[way.label]
    assert learnt[ENDS[0]]
    assert learnt[ENDS[1]]
    on_top = koran["fine-tuned, to the end, and robust"]
    tuned = koran["fine-tuned, to the end"]
    assert on_top["CPU-minutes"]["value"] > tuned["CPU-minutes"]["value"]
    assert on_top["MB"]["value"] > tuned["MB"]["value"]
    assert koran["base"]["CPU-minutes"]["value"] is None


def test_a_model_gets_the_time_of_knn(studied: Any) -> None:
    pytest.importorskip("peft")
    run = studied.runs[2]
    setup = run.setups["finetune"]
    domain = setup.benchmark.domains[PLAIN]
    ways = {way.label: way.tuned for way in FINETUNE._ways(setup, domain) if not way.knn}
    for method, label in (("full", "fine-tuned"), ("lora", "LoRA")):
        step = ways[f"{label}, same time"]
        assert step is not None
        assert step.method == method
        assert [type(each) for each in step.as_long_as] == [Build, Collect, Fit]
        taken = sum(cpu_seconds(run.lab.result(each)) for each in step.as_long_as)
        recipe = run.lab.result(step)["recipe"]
        assert (recipe["method"], recipe["budget_seconds"]) == (method, taken)
        to_the_end = ways[f"{label}, to the end"]
        assert run.lab.result(to_the_end)["recipe"]["budget_seconds"] is None


def test_the_time_of_a_step() -> None:
    """Of a build it is that of all entries, also of those that an interrupted build has made; if it is known."""
    assert cpu_seconds({"step_seconds": 3.0}) == 3.0
    assert cpu_seconds({"step_seconds": 3.0, "cpu_seconds": 9.0}) == 9.0
    assert cpu_seconds({"step_seconds": 3.0, "cpu_seconds": None}) == 3.0


def test_without_peft_nothing_begins(benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = setup_of(benchmark, [HALVED])
    wanted = [step for step in FINETUNE.steps(setup) if isinstance(step, Finetune)]
    monkeypatch.setattr(steps, "find_spec", lambda name: None)
    for step in wanted:
        made = Plan([PlannedOnly(step)], 0)  # type: ignore[list-item]
        if step.method == "full":
            made.check(tmp_path)
            continue
        with pytest.raises(StudyError, match=r"needs peft; run `pip install 'knnmt\[finetune\]'`, or leave it out"):
            made.check(tmp_path)


class PlannedOnly:
    """A planned step that takes nothing."""

    seconds = disk = memory = 0.0

    def __init__(self, step: Finetune) -> None:
        self.step = step


def test_languages_and_device_are_the_models(
    benchmark: Path, tmp_path: Path, model: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A multilingual model does not know by itself what to translate."""
    asked: dict[str, Any] = {}

    def finetune(*arguments: Any, **options: Any) -> Any:
        asked.update(options, arguments=arguments)
        return FinetuneReport

    monkeypatch.setattr(steps, "finetune", finetune)
    monkeypatch.setattr(FinetuneReport, "to_json", lambda: {})
    setup = setup_of(benchmark, [PLAIN])
    domain = setup.domains[0]
    step = Finetune(setup.model, domain.train, domain.dev, "full")

    class Lab:
        work = type("Work", (), {"directory": lambda self, step: tmp_path})()

        def model(self, asked: Any) -> TranslationModel:
            return model

    codec = model.codec
    monkeypatch.setattr(codec, "source_prefix", "translate: ")
    step.run(Lab())  # type: ignore[arg-type]
    assert asked["arguments"][:3] == (model.name, domain.train.pairs, domain.dev.pairs)
    assert (asked["device"], asked["source_prefix"]) == ("cpu", "translate: ")
    assert (asked["source_lang"], asked["target_lang"]) == (codec.source_lang, codec.target_lang)


def test_costs(benchmark: Path) -> None:
    """CPU-minutes of building and fitting; megabytes of the store. Half a minute for the store, one for the others."""
    setup = setup_of(benchmark, [PLAIN])
    [table] = FINETUNE.section(setup, MadeUp()).tables
    costs = {row.cells[0].text: [cell.text for cell in row.cells[-2:]] for row in table.rows}
    assert costs["base"] == ["–", "–"]
    assert costs["robust"] == ["2.5", "72"]
    assert costs["LoRA, same time"] == costs["fine-tuned, to the end"] == ["2.0", "5"]
    assert costs["fine-tuned, to the end, and robust"] == ["4.5", "77"]
    assert [column for column in table.columns if column.startswith("BLEU")] == [f"BLEU {PLAIN}"]
