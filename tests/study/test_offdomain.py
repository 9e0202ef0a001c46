"""Wrong memories: every test set with every other domain's store."""

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from naive_study import Rows, combiner_of, judged, store_of, translated
from tiny_study import DOMAINS, GZIPPED, HALVED, PLAIN, MadeUp, scored_pairs, setup_of
from tolerances import NLL

from knnmt.methods import read_combiner
from knnmt.study.setup import METHODS
from knnmt.study.studies.offdomain import OffDomain

OFF_DOMAIN = OffDomain()


@pytest.mark.to_the_bit
def test_the_table(studied: Any) -> None:
    run = studied.runs[0]
    setup = run.setups["offdomain"]
    shown = json.loads((studied.out / "tables" / "offdomain.json").read_text())
    rows = {(row[0]["text"], row[1]["text"]): dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}
    assert list(rows) == [(test, other) for test in DOMAINS for other in DOMAINS if test != other]
    test, other = GZIPPED, HALVED
    memory = setup.benchmark.domains[other]
    store = store_of(run.lab, setup.store(memory))
    sources, references = ([pair[side] for pair in scored_pairs(test)] for side in (0, 1))
    for method in METHODS:
        combiner = read_combiner(combiner_of(run.lab, setup.fit(memory, method)))
        lines = translated(studied.model, sources, store, combiner)
        expected = sacrebleu.corpus_bleu(lines, [references]).score
        assert rows[test, other][f"BLEU {method}"]["value"] == pytest.approx(expected)
        nll = judged(studied.model, Rows.of(store), combiner, scored_pairs(test)).nll
        assert rows[test, other][f"NLL {method}"]["value"] == pytest.approx(nll, abs=NLL)
    alone = translated(studied.model, sources, store, None)
    base = sacrebleu.corpus_bleu(alone, [references]).score
    assert rows[test, other]["BLEU base"]["value"] == pytest.approx(base)
    assert rows[test, PLAIN]["BLEU base"]["value"] == rows[test, other]["BLEU base"]["value"]


def test_marks_are_for_what_is_worse(benchmark: Path) -> None:
    setup = setup_of(benchmark, [HALVED, PLAIN])
    scores = {f"{PLAIN} vanilla": 20.0, f"{PLAIN} adaptive": 40.0}
    for p, mark in ((0.04, "*"), (0.06, "")):
        [table] = OFF_DOMAIN.section(setup, MadeUp(bleu=lambda system, split: scores.get(system, 30.0), p=p)).tables
        marks = [[cell.mark for cell in row.cells[2:6]] for row in table.rows]
        assert marks == [["", mark, "", ""], ["", "", "", ""]]


def test_one_domain_has_no_other(benchmark: Path) -> None:
    assert not OFF_DOMAIN.suits(setup_of(benchmark, [PLAIN]))
    assert OFF_DOMAIN.suits(setup_of(benchmark, [PLAIN, HALVED]))
