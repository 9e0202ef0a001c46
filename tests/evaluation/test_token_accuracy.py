"""Accuracy against the whole distribution, position by position."""

import numpy as np
import pytest
import torch
from worlds import observed

from knnmt.combiner import Combiner
from knnmt.evaluation import accuracy
from knnmt.methods import Adaptive, Robust, Vanilla
from knnmt.training import Features, features

K, POSITIONS, VOCABULARY = 4, 300, 9


@pytest.fixture
def log_p() -> torch.Tensor:
    """log p_NMT of every token.  # [positions, vocabulary]"""
    return (3 * torch.randn(POSITIONS, VOCABULARY, generator=torch.Generator().manual_seed(5))).log_softmax(1)


@pytest.fixture
def world(log_p: torch.Tensor) -> Features:
    """Positions with all, few and no neighbours; tokens are often among them more than once."""
    generator = torch.Generator().manual_seed(6)
    distances = (torch.rand(POSITIONS, K, generator=generator) * 20).sort(1).values
    distances[::9, 1:] = torch.inf
    distances[::11] = torch.inf
    values = torch.randint(0, VOCABULARY, (POSITIONS, K), generator=generator)
    values = values.where(torch.isfinite(distances), 0)
    tokens = torch.randint(0, VOCABULARY, (POSITIONS,), generator=generator)
    gold = log_p.gather(1, tokens[:, None]).squeeze(1)
    confidence = -torch.rand(POSITIONS, K, generator=generator)
    seen = observed(distances, values, confidence, log_p.gather(1, values), log_p.topk(K).values)
    return Features(seen, tokens, gold, log_p.sum(1), np.array([POSITIONS]), VOCABULARY, dim=4)


def naive(world: Features, combiner: Combiner, log_p: torch.Tensor) -> float:
    right = 0
    for row in range(POSITIONS):
        seen = world.observation.take(torch.tensor([row]), combiner.needs)
        with torch.inference_mode():
            combination = combiner.combine(seen)
        lam = float(combination.lam)
        p = (1 - lam) * log_p[row].double().exp()
        for k in range(combiner.k):
            if seen.distances[0, k] < torch.inf:
                p[seen.values[0, k]] += lam * float(combination.weights[0, k])
        right += int(p.argmax()) == int(world.tokens[row])
    return right / POSITIONS


COMBINERS = [
    Vanilla(K, 0.5, 8.0),
    Vanilla(1, 0.9, 8.0),
    Vanilla(K, 0.0, 8.0),
    Vanilla(K, 1.0, 8.0),
    Adaptive(K, 2.0, 8.0, seed=1),
    Robust(K, 2.0, top=2, seed=1),
    Robust(K, 2.0, without=("wp",), seed=1),  # needs none of the model's highest p's
]


@pytest.mark.parametrize("combiner", COMBINERS, ids=lambda combiner: combiner.signature)
@pytest.mark.parametrize("rows", [65_536, 64])
def test_accuracy_agrees_with_loops(
    world: Features, log_p: torch.Tensor, combiner: Combiner, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(features, "_ROWS", rows)
    expected = naive(world, combiner, log_p)
    assert 0.05 < expected < 0.95
    assert accuracy(world, combiner) == pytest.approx(expected)


def test_the_model_alone(world: Features, log_p: torch.Tensor) -> None:
    right = [int(log_p[row].argmax()) == int(world.tokens[row]) for row in range(POSITIONS)]
    assert accuracy(world, None) == pytest.approx(sum(right) / POSITIONS)
    assert accuracy(world, Vanilla(K, 0.0, 8.0)) == accuracy(world, None), "a memory that has no say changes nothing"


def test_a_token_that_is_likely_by_both_counts_once() -> None:
    """The model's likeliest token may be a neighbour's too: then their probabilities add up."""
    p = torch.tensor([[0.4, 0.35, 0.25]])
    blank, highest = torch.zeros(1, 1), p.max(1, keepdim=True).values.log()
    for gold, right in ((0, 0.0), (1, 1.0)):
        tokens = torch.tensor([gold])
        seen = observed(torch.ones(1, 1), torch.tensor([[1]]), blank, p[:, 1:2].log(), highest)
        of_gold = p[0, tokens].log()
        one = Features(seen, tokens, of_gold, p.log().sum(1), np.array([1]), 3, dim=4)
        assert accuracy(one, Vanilla(1, 0.1, 1.0)) == right
