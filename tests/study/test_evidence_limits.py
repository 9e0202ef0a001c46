"""Evidence with wrong and pruned memories: what is compared, and the claims."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_study import HALVED, PLAIN, MadeUp, held, setup_of

from knnmt.datastore.cuts import ConfidenceCut
from knnmt.study.steps import CollectContext, View
from knnmt.study.studies.evidence_limits import EvidenceLimits

LIMITS = EvidenceLimits()


def test_memories_and_combiners(benchmark: Path) -> None:
    setup = setup_of(benchmark, [HALVED, PLAIN])
    test, other = setup.domains
    found = LIMITS._fits(setup, test)
    assert [what for what in found if what[1] == "evidence"] == [
        (f"store of {other.name}", "evidence"),
        ("pruned, as trained", "evidence"),
        ("pruned, trained again", "evidence"),
    ]
    for (memory, method), (fit, searched) in found.items():
        assert fit.method == method
        if memory.startswith("store of"):
            assert searched == fit.memory == setup.store(other)
        else:
            assert isinstance(searched, View)
            assert searched.cut == ConfidenceCut(0.0, 0.6)
            assert fit.memory == (searched if memory.endswith("again") else setup.store(test))
        judge = LIMITS._judged(setup, test)[memory, method]
        assert judge.features.memory == searched
        assert judge.features.split == test.test
        assert isinstance(judge.features, CollectContext) == (method == "evidence")


def test_the_table(studied: Any) -> None:
    run = studied.runs[1]
    setup = run.setups["evidence-limits"]
    domain = setup.benchmark.domains[HALVED]
    shown = json.loads((studied.out / "tables" / "evidence-limits.json").read_text())
    rows = {row[1]["text"]: dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}
    assert list(rows) == ["pruned, as trained", "pruned, trained again"]
    for (memory, method), judge in LIMITS._judged(setup, domain).items():
        nll = judge.features.load(run.lab).judge(judge.fit.load(run.lab))[0]
        assert rows[memory][f"NLL {method}"]["value"] == pytest.approx(nll)


@pytest.mark.parametrize(
    ("memory", "about", "slightly_less"),
    [
        ("store of", "evidence loses no more than robust off the domain", True),
        ("pruned, as trained", "on pruned stores, as trained, evidence is better", None),
        ("pruned, trained again", "on pruned stores, trained again, evidence is better", None),
    ],
)
def test_claims(benchmark: Path, memory: str, about: str, slightly_less: bool | None) -> None:
    setup = setup_of(benchmark, [HALVED, PLAIN])

    def verdict(more: float) -> bool | None:
        def bleu(system: str, split: str) -> float:
            return 30 + (more if system.startswith(memory) and system.endswith("evidence") else 0)

        return held(LIMITS, setup, MadeUp(bleu=bleu), about)

    assert verdict(1.0) is True
    assert verdict(-1.0) is False
    assert verdict(-0.01) is slightly_less


def test_one_domain_is_only_pruned(benchmark: Path) -> None:
    setup = setup_of(benchmark, [PLAIN])
    assert len(LIMITS.section(setup, MadeUp()).claims) == 2
