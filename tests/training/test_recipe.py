"""The numbers of the recipe."""

import json
import math
from typing import Any

import pytest

from knnmt.errors import MethodError
from knnmt.training import Perturbation, Recipe


def test_the_values_unless_others_are_given() -> None:
    """Those of the released code, listed in the paper and the facts about it."""
    assert Recipe().to_json() == {
        "seed": 1,
        "updates": 5000,
        "batch_sentences": 32,
        "learning_rate": 3e-4,
        "adam_betas": (0.9, 0.98),
        "adam_eps": 1e-8,
        "warmup": 0,
        "decay": False,
        "clip": 1.0,
        "label_smoothing": 0.001,
        "validate_from": 1000,
        "validate_every": 100,
        "patience": 30,
        "held_out": 0.0,
    }
    assert Perturbation().to_json() == {
        "alpha": 1.0,
        "beta": 1000.0,
        "sigma": 0.01,
        "exact_perturbation": False,
        "decline": True,
        "vector_perturbation": True,
        "pseudo_pairs": True,
    }
    assert json.loads(json.dumps(Recipe().to_json()))["adam_betas"] == [0.9, 0.98]


def test_alpha_declines_with_the_updates() -> None:
    recipe = Perturbation(alpha=0.8, beta=250.0)
    assert recipe.ratio(0) == 0.8
    for update in (1, 100, 250, 5000):
        assert recipe.ratio(update) == pytest.approx(0.8 * math.e ** (-update / 250))
    assert recipe.ratio(250) == pytest.approx(0.8 / math.e)
    assert Perturbation(alpha=0.0).ratio(10) == 0
    assert Perturbation(beta=1e-3).ratio(10**6) == 0


def test_without_the_decline_alpha_stays() -> None:
    recipe = Perturbation(alpha=0.8, beta=250.0, decline=False)
    assert {recipe.ratio(update) for update in (0, 1, 250, 5000)} == {0.8}


def test_the_learning_rate_rises_and_falls() -> None:
    assert {Recipe().rate(update) for update in range(5000)} == {3e-4}
    recipe = Recipe(updates=10, learning_rate=0.1, warmup=3, decay=True)
    expected = [0.025, 0.05, 0.075, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01]
    assert [recipe.rate(update) for update in range(10)] == pytest.approx(expected)


@pytest.mark.parametrize(
    "options",
    [{name: value} for name in ("updates", "batch_sentences", "validate_every", "patience") for value in (0, -1)]
    + [{name: value} for name in ("learning_rate", "adam_eps", "clip", "beta") for value in (0.0, -1.0, math.nan)]
    + [{name: value} for name in ("alpha", "label_smoothing", "held_out") for value in (-0.1, 1.1, math.nan)]
    + [
        {"label_smoothing": 1.0},
        {"sigma": -0.01},
        {"validate_from": -1},
        {"warmup": -1},
        {"held_out": 1.0},
        {"seed": -1},
    ]
    + [{"adam_betas": betas} for betas in ((1.0, 0.98), (0.9, 1.0), (-0.1, 0.98), (0.9, math.nan))],
    ids=str,
)
def test_impossible_values(options: dict[str, Any]) -> None:
    with pytest.raises(MethodError):
        _made(options)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"sigma": 0.0},
        {"label_smoothing": 0.0},
        {"validate_from": 0},
        {"seed": 0},
        {"adam_betas": (0.0, 0.0)},
    ],
    ids=str,
)
def test_values_at_the_edge(options: dict[str, Any]) -> None:
    recipe = _made(options)
    assert {name: getattr(recipe, name) for name in options} == options


def _made(options: dict[str, Any]) -> Recipe | Perturbation:
    return Perturbation(**options) if set(options) <= set(Perturbation().to_json()) else Recipe(**options)
