"""The main results against translations and probabilities that are computed directly, and its claims."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from naive_study import Rows, combiner_of, judged, store_of, translated
from tiny_study import DOMAINS, GZIPPED, HALVED, PLAIN, MadeUp, held, pairs_of, scored_pairs, setup_of
from tolerances import NLL, TRUST

from knnmt.evaluation import score_systems
from knnmt.methods import read_combiner
from knnmt.report import Table
from knnmt.study import Benchmark
from knnmt.study.setup import METHODS, Setup
from knnmt.study.steps import Comet
from knnmt.study.studies import figures, main
from knnmt.study.studies.main import SYSTEMS, Main

MAIN = Main()


@pytest.fixture(scope="module")
def setup(benchmark: Path) -> Setup:
    return setup_of(benchmark)


def table(studied: Any, name: str) -> Any:
    return json.loads((studied.out / "tables" / f"{name}.json").read_text(encoding="utf-8"))


def cells(studied: Any, name: str) -> dict[tuple[str, str], Any]:
    """By row and column title."""
    shown = table(studied, name)
    return {
        (row[0]["text"], column): cell
        for row in shown["rows"]
        for column, cell in zip(shown["columns"], row, strict=True)
    }


@pytest.mark.to_the_bit
def test_bleu_of_translations_made_directly(studied: Any) -> None:
    run = studied.runs[0]
    setup = run.setups["main"]
    bleu, chrf = cells(studied, "main-bleu"), cells(studied, "main-chrf")
    for name, domain in setup.benchmark.domains.items():
        store = store_of(run.lab, setup.store(domain))
        sources, references = ([pair[side] for pair in scored_pairs(name)] for side in (0, 1))
        hypotheses = {}
        for system in SYSTEMS:
            fit = None if system == "base" else setup.fit(domain, system)
            combiner = None if fit is None else read_combiner(combiner_of(run.lab, fit))
            hypotheses[system] = translated(studied.model, sources, store, combiner)
            expected = sacrebleu.corpus_bleu(hypotheses[system], [references])
            assert bleu[system, name]["value"] == pytest.approx(expected.score)
            assert bleu[system, name]["brevity_penalty"] == pytest.approx(expected.bp)
            assert bleu[system, name]["text"].rstrip("†‡") == f"{expected.score:.2f}"
            signature = bleu[system, name]["signature"]
            assert signature.startswith(f"method:{system}|")
            assert system == "base" or signature.endswith(f"store:{store.fingerprint[:8]}")
            score = sacrebleu.corpus_chrf(hypotheses[system], [references]).score
            assert chrf[system, name]["value"] == pytest.approx(score)
        scores = score_systems(hypotheses, references, "adaptive", 50)
        for system, p in scores.p_values.items():
            assert bleu[system, name]["p"] == p.bleu_p
            assert bleu[system, name]["ci"] == pytest.approx(list(scores.systems[system].bleu_ci))
        robust = {"bleu": bleu["robust", name]["value"], "bleu_p": scores.p_values["robust"].bleu_p}
        mark = figures.mark(robust, {"bleu": bleu["adaptive", name]["value"]})
        assert bleu["robust", name]["text"].endswith(mark)
    for system in SYSTEMS:
        mean = sum(bleu[system, name]["value"] for name in DOMAINS) / len(DOMAINS)
        assert bleu[system, "average"]["value"] == pytest.approx(mean)


def test_likelihood_with_loops(studied: Any) -> None:
    """By exhaustive search, over the whole vocabulary."""
    run = studied.runs[0]
    setup = run.setups["main"]
    rows = iter(table(studied, "main-nll")["rows"])
    columns = table(studied, "main-nll")["columns"][2:]
    for name, domain in setup.benchmark.domains.items():
        store = store_of(run.lab, setup.store(domain))
        base = next(rows)
        assert (base[0]["text"], base[1]["text"]) == (name, "base")
        for method in METHODS:
            combiner = read_combiner(combiner_of(run.lab, setup.fit(domain, method)))
            expected = judged(studied.model, Rows.of(store), combiner, scored_pairs(name))
            own = next(rows)
            assert own[1]["text"] == method
            shown = dict(zip(columns, (cell["value"] for cell in own[2:]), strict=True))
            assert shown["NLL"] == pytest.approx(expected.nll, abs=NLL)
            assert shown["accuracy"] == pytest.approx(expected.accuracy)
            assert shown["token among K"] == pytest.approx(expected.gold_in_k)
            assert shown["mean λ"] == pytest.approx(expected.mean_lambda, abs=TRUST)
        log_p = [each[0] for each in expected.lambdas]
        assert base[2]["value"] == pytest.approx(-sum(log_p) / len(log_p), abs=NLL)
    assert next(rows, None) is None


def test_sizes(studied: Any) -> None:
    shown = cells(studied, "main-sizes")
    run = studied.runs[0]
    for name, domain in run.setups["main"].benchmark.domains.items():
        store = store_of(run.lab, run.setups["main"].store(domain))
        assert shown[name, "entries"]["value"] == store.entry_count == len(Rows.of(store))
        assert shown[name, "train"]["value"] == len(pairs_of(name)) - 6 + 1
        assert (shown[name, "dev"]["value"], shown[name, "test"]["value"]) == (3, 3)
        assert shown[name, "keys, MB"]["value"] == pytest.approx(store.sizes()["keys"] / 1e6)
        assert shown[name, "index"]["text"] == "Flat"


def test_intervals_and_p(setup: Setup) -> None:
    """Adaptive is compared with, and has no p."""
    [table] = [each for each in MAIN.section(setup, MadeUp(p=0.0321)).tables if each.name == "main-intervals"]
    shown = {row.cells[0].text: {cell.text for cell in row.cells[1:]} for row in table.rows}
    assert shown == {name: {"29.0–31.0" if name == "adaptive" else "29.0–31.0, p 0.032"} for name in SYSTEMS}


def test_what_is_best(setup: Setup) -> None:
    """Bold, and never the paper's figures, which are shown where the languages are the paper's."""
    scores = {"base": 10.0, "vanilla": 30.0, "adaptive": 20.0, "robust": 25.0}
    shown = MAIN.section(setup, MadeUp(bleu=lambda system, split: scores[system])).tables[0]
    own = {row.cells[0].text: row for row in shown.rows}
    assert list(own) == [*SYSTEMS, *(f"{system}, paper" for system in SYSTEMS)]
    for name, row in own.items():
        assert [cell.best for cell in row.cells[1:]] == [name == "vanilla"] * 4
    assert [cell.text for cell in own["robust, paper"].cells] == ["robust, paper", "48.90", "20.71", "64.07", "44.56"]
    assert all(own[f"{system}, paper"].quiet for system in SYSTEMS)


def test_other_languages_have_no_figures_of_the_paper(setup: Setup) -> None:
    french = setup_of(setup.benchmark.path)
    for domain in french.benchmark.domains.values():
        object.__setattr__(domain.test, "languages", ("fr", "en"))
    assert not Benchmark(french.benchmark.path, french.benchmark.domains).is_the_papers
    assert len(MAIN.section(french, MadeUp()).tables[0].rows) == len(SYSTEMS)


def test_marks_are_for_robust(setup: Setup) -> None:
    scores = {"base": 50.0, "vanilla": 50.0, "adaptive": 20.0, "robust": 25.0}
    for p, mark in ((0.004, "‡"), (0.04, "†"), (0.4, "")):
        shown = MAIN.section(setup, MadeUp(bleu=lambda system, split: scores[system], p=p)).tables[0]
        assert {cell.mark for cell in shown.rows[3].cells[1:-1]} == {mark}
        assert {cell.mark for row in shown.rows[:3] for cell in row.cells[1:]} == {""}


@pytest.mark.parametrize(("better", "worse"), [("vanilla", "base"), ("adaptive", "vanilla"), ("robust", "adaptive")])
def test_claims_on_the_order_of_systems(setup: Setup, better: str, worse: str) -> None:
    """Two deviations of 2,000 sentences are 0.37 BLEU, of three domains with as many 0.21."""
    for gain, expected in ((0.25, True), (-0.25, False), (0.2, None), (-0.2, None)):
        scores = {better: 30 + gain, worse: 30.0}
        results = MadeUp(bleu=lambda system, split: scores.get(system, 7.0))  # noqa: B023, used at once
        assert held(MAIN, setup, results, f"{better} is better than {worse}") is expected


def test_a_claim_is_on_the_average_of_domains(setup: Setup) -> None:
    gains = {HALVED: 3.0, PLAIN: -0.5, GZIPPED: -0.5}
    results = MadeUp(bleu=lambda system, split: 30 + (system == "robust") * gains[split.split()[0]])
    assert held(MAIN, setup, results, "robust is better than adaptive") is True
    [claim] = [each for each in MAIN.section(setup, results).claims if "robust is better" in each.text]
    assert "it +3.00 ± 0.18, koran -0.50 ± 0.18, law -0.50 ± 0.18; average +0.67 ± 0.11" in claim.evidence


@pytest.mark.parametrize(("koran", "others", "expected"), [(0.1, 1.0, True), (1.0, 0.1, False), (0.8, 1.0, None)])
def test_the_claim_on_koran(setup: Setup, koran: float, others: float, expected: bool | None) -> None:
    def bleu(system: str, split: str) -> float:
        return 30 + (system == "robust") * (koran if split.startswith(PLAIN) else others)

    assert held(MAIN, setup, MadeUp(bleu=bleu), "small on Koran") is expected


def test_without_koran_there_is_no_claim_on_it(benchmark: Path) -> None:
    for domains in ([HALVED, GZIPPED], [PLAIN]):
        claims = MAIN.section(setup_of(benchmark, domains), MadeUp()).claims
        assert not [claim for claim in claims if "Koran" in claim.text]


COMMAND = """#!{python}
import json, sys
options = sys.argv[1:]
files = options[options.index("-t") + 1 : options.index("-r")]
lines = {{name: open(name, encoding="utf-8").read().splitlines() for name in files}}
scores = {{name: [{{"COMET": len(line) / 100}} for line in lines[name]] for name in files}}
json.dump(scores, open(options[options.index("--to_json") + 1], "w"))
"""


def test_comet_where_its_command_is_installed(studied: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has the mean over sentences; a report that was made without it keeps what it has."""
    assert not (studied.out / "tables" / "main-comet.json").exists()
    assert not main._has_comet()
    command = tmp_path / "bin" / "comet-score"
    command.parent.mkdir()
    command.write_text(COMMAND.format(python=sys.executable))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    run = studied.open(tmp_path / "report", only=["main"], domains=[PLAIN])
    assert [type(each.step) for each in run.plan.steps] == [Comet]
    run.finish()
    shown = json.loads((tmp_path / "report" / "tables" / "main-comet.json").read_text())
    setup = run.setups["main"]
    domain = setup.domains[0]
    for row, system in zip(shown["rows"], SYSTEMS, strict=True):
        fit = None if system == "base" else setup.fit(domain, system)
        lines = setup.system(system, domain, fit).translations(run.lab)
        assert row[0]["text"] == system
        assert row[1]["value"] == pytest.approx(sum(map(len, lines)) / len(lines) / 100)
    (run.lab.work.directory(Comet(MAIN._systems(setup, domain), domain.test)) / "result.json").unlink()


def test_tables_have_names_and_notes(setup: Setup) -> None:
    tables: list[Table] = list(MAIN.section(setup, MadeUp()).tables)
    assert [each.name for each in tables] == [
        *("main-bleu", "main-intervals", "main-chrf", "main-nll", "main-sizes"),
    ]
    notes = " ".join(tables[0].notes)
    assert "† p < 0.05, ‡ p < 0.01" in notes
    assert all(f"{name}:" in notes or f"{name} has no test set" in notes for name in DOMAINS)
    assert "BLEU|tok:13a" in notes
