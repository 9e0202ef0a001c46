"""The paper's own figures."""

from statistics import fmean

import pytest

from knnmt.study import paper


def test_averages_of_the_paper() -> None:
    """Table 2 gives them, rounded: nothing was copied into a wrong cell."""
    averages = {"base": 35.04, "vanilla": 45.48, "adaptive": 46.90, "robust": 47.74}
    assert {name: round(fmean(scores.values()), 2) for name, scores in paper.MAIN.items()} == pytest.approx(
        averages, abs=0.011
    )
    assert paper.gain("robust", "adaptive") == pytest.approx(0.84, abs=0.011)


def test_tables_agree_where_they_show_the_same() -> None:
    for method in ("vanilla", "adaptive"):
        assert paper.CONFIDENCE["all"][method] == paper.MAIN[method]["it"]
    assert paper.ABLATION[""] == paper.MAIN["robust"]["it"]
    for way, same in (("random", "random"), ("confidence", "[0%, 20%)")):
        shares = paper.PRUNING[way]
        assert {method: shares[method][0.0] for method in shares} == {
            method: paper.MAIN[method]["it"] for method in ("adaptive", "robust")
        }
        assert shares["adaptive"][0.2] == paper.CONFIDENCE[same]["adaptive"]
    gain = paper.PRUNING["confidence"]["robust"][0.6] - paper.PRUNING["confidence"]["adaptive"][0.6]
    assert gain == pytest.approx(4.47)
