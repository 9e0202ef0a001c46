"""The sparse interpolation against dense distributions, in loops."""

import numpy as np
import pytest
import torch
from tolerances import SHARE, SINGLE

from knnmt.combiner import LOG_ZERO, Combination, log_p_knn, log_shares_of_both, mix_logits, mixture_log_p, observe
from knnmt.methods import Vanilla
from knnmt.model import Logits
from knnmt.search import Neighbours

ROWS, K, VOCABULARY = 7, 6, 23


def dense(logits: np.ndarray, values: np.ndarray, weights: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """λ p_kNN + (1 − λ) p_NMT, token by token."""
    result = np.zeros_like(logits, dtype=np.float64)
    for row in range(len(logits)):
        exponentials = np.exp(logits[row].astype(np.float64) - logits[row].max())
        p_nmt = exponentials / exponentials.sum()
        p_knn = np.zeros(VOCABULARY)
        for value, weight in zip(values[row], weights[row], strict=True):
            p_knn[value] += weight
        result[row] = lam[row] * p_knn + (1 - lam[row]) * p_nmt
    return result


def answer(weights: torch.Tensor, lam: torch.Tensor) -> Combination:
    return Combination(
        weights.log().clamp_min(LOG_ZERO),
        lam.logit().clamp_min(LOG_ZERO),
        torch.ones_like(lam),
        torch.zeros_like(weights),
    )


@pytest.fixture
def world() -> tuple[torch.Tensor, torch.Tensor, Combination]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(ROWS, VOCABULARY, generator=generator) * 4
    values = torch.randint(0, VOCABULARY, (ROWS, K), generator=generator)
    values[0] = 5  # all neighbours say the same
    values[1, :3] = values[1, 3]
    weights = torch.rand(ROWS, K, generator=generator).softmax(1)
    weights[2, 1:] = 0
    weights[2, 0] = 1
    lam = torch.rand(ROWS, generator=generator)
    return logits, values, answer(weights, lam)


def test_the_softmax_of_the_mixed_logits_is_the_mixture(
    world: tuple[torch.Tensor, torch.Tensor, Combination],
) -> None:
    logits, values, combination = world
    expected = dense(logits.numpy(), values.numpy(), combination.weights.numpy(), combination.lam.numpy())
    mixed = logits.clone()
    mix_logits(mixed, logits.logsumexp(1), values, combination)
    np.testing.assert_allclose(mixed.softmax(1).numpy(), expected, atol=SHARE)
    changed = (mixed != logits).nonzero()
    assert {(row, column) for row, column in changed.tolist()} <= {
        (row, int(values[row, k])) for row in range(ROWS) for k in range(K)
    }


def test_one_tokens_log_p_under_the_mixture(world: tuple[torch.Tensor, torch.Tensor, Combination]) -> None:
    logits, values, combination = world
    expected = dense(logits.numpy(), values.numpy(), combination.weights.numpy(), combination.lam.numpy())
    for token in range(VOCABULARY):
        tokens = torch.full((ROWS,), token)
        found = mixture_log_p(combination, values, tokens, logits.log_softmax(1)[:, token])
        np.testing.assert_allclose(found.numpy(), np.log(expected[:, token]), rtol=SINGLE, atol=SHARE)


def test_at_lambda_zero_nothing_changes_and_at_one_nothing_breaks(
    world: tuple[torch.Tensor, torch.Tensor, Combination],
) -> None:
    logits, values, combination = world
    for lam in (0.0, 1.0):
        mixed = logits.clone()
        at = answer(combination.weights, torch.full((ROWS,), lam))
        mix_logits(mixed, logits.logsumexp(1), values, at)
        assert torch.isfinite(mixed).all()
        expected = dense(logits.numpy(), values.numpy(), at.weights.numpy(), at.lam.numpy())
        np.testing.assert_allclose(mixed.softmax(1).numpy(), expected, atol=SHARE)
        if lam == 0:
            assert torch.equal(mixed, logits)


def test_banned_tokens_of_the_model_stay_finite_in_the_mixture() -> None:
    logits = torch.tensor([[1.0, -torch.inf, 2.0]])
    values = torch.tensor([[1, 2]])
    mix_logits(logits, logits.logsumexp(1), values, answer(torch.tensor([[0.5, 0.5]]), torch.tensor([0.4])))
    p = logits.softmax(1)[0]
    assert p[1].item() == pytest.approx(0.2, abs=SHARE)
    assert p.sum().item() == pytest.approx(1, abs=SHARE)


def test_equal_tokens_add_up() -> None:
    values = torch.tensor([[3, 1, 3, 1, 2]])
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.15, 0.25]])
    expected = torch.tensor([[0.4, 0.35, 0.4, 0.35, 0.25]])
    torch.testing.assert_close(log_p_knn(values, values, weights.log()).exp(), expected)


def neighbours(distances: np.ndarray, values: np.ndarray) -> Neighbours:
    ids = np.where(np.isfinite(distances), np.arange(distances.size).reshape(distances.shape), -1)
    return Neighbours(ids, distances.astype(np.float32), values.astype(np.int32), np.full_like(distances, -1.5, "f"))


def test_vanilla_agrees_with_the_equation() -> None:
    rng = np.random.default_rng(0)
    distances = np.sort(rng.random((ROWS, K)) * 900, axis=1)
    distances[3] = 0  # equal and zero
    distances[4] += 1e6  # far away: exp would underflow
    values = rng.integers(0, VOCABULARY, (ROWS, K))
    logits = torch.randn(ROWS, VOCABULARY, generator=torch.Generator().manual_seed(0))
    seen = observe(neighbours(distances, values), Logits(logits), top=4)
    answer = Vanilla(K, 0.6, 120.0).combine(seen)
    shifted = distances.astype(np.float32).astype(np.float64)
    expected = np.exp(-(shifted - shifted.min(1, keepdims=True)) / 120)
    np.testing.assert_allclose(answer.weights.numpy(), expected / expected.sum(1, keepdims=True), rtol=SINGLE)
    assert answer.lam.tolist() == pytest.approx([0.6] * ROWS, abs=SHARE)
    log_p = logits.log_softmax(1)
    torch.testing.assert_close(seen.log_p_values, log_p.gather(1, torch.from_numpy(values)))
    torch.testing.assert_close(seen.log_p_top, log_p.sort(1, descending=True).values[:, :4])


def test_missing_neighbours_have_no_say() -> None:
    distances = np.array([[1.0, 2.0, np.inf], [np.inf, np.inf, np.inf]])
    values = np.array([[4, 5, 0], [0, 0, 0]])
    logits = torch.randn(2, VOCABULARY, generator=torch.Generator().manual_seed(1))
    seen = observe(neighbours(distances, values), Logits(logits))
    answer = Vanilla(3, 0.5, 1.0).combine(seen)
    assert answer.weights[0, 2] == 0
    assert answer.weights[0].sum().item() == pytest.approx(1, abs=SHARE)
    assert answer.weights[1].tolist() == [0, 0, 0]
    assert answer.lam.tolist() == [0.5, 0.0]
    mixed = logits.clone()
    mix_logits(mixed, logits.logsumexp(1), seen.values, answer)
    assert torch.equal(mixed[1], logits[1])
    assert mixed[0, 0] == logits[0, 0], "the value that pads a row is not a vote"


def test_a_missing_neighbours_value_does_not_hide_a_real_one() -> None:
    """Token 0 fills up rows, and is a real token too (Marian's end of sentence)."""
    logits = torch.zeros(1, VOCABULARY)
    seen = observe(neighbours(np.array([[1.0, np.inf]]), np.array([[0, 0]])), Logits(logits))
    mix_logits(logits, torch.full((1,), np.log(VOCABULARY)), seen.values, Vanilla(2, 0.5, 1.0).combine(seen))
    assert logits.softmax(1)[0, 0].item() == pytest.approx(0.5 + 0.5 / VOCABULARY, abs=SHARE)


def test_the_mixture_sums_to_one_however_it_is_computed(
    world: tuple[torch.Tensor, torch.Tensor, Combination],
) -> None:
    logits, values, combination = world
    for lam in (0.0, 1e-12, 0.5, 1 - 1e-7, 1.0):
        at = answer(combination.weights, torch.full((ROWS,), lam))
        mixed = logits.clone()
        mix_logits(mixed, logits.logsumexp(1), values, at)
        log_p = logits.log_softmax(1)
        by_token = torch.stack(
            [mixture_log_p(at, values, torch.full((ROWS,), token), log_p[:, token]) for token in range(VOCABULARY)], 1
        )
        assert torch.isfinite(by_token).all()
        np.testing.assert_allclose(by_token.exp().sum(1), 1, atol=SHARE)
        np.testing.assert_allclose(by_token.exp(), mixed.softmax(1), atol=SHARE)


def test_log_shares_are_finite_at_both_ends() -> None:
    """A vote that were all the neighbours' would make a loss of infinity where they are wrong."""
    log_odds = torch.tensor([LOG_ZERO, -50.0, -3.0, 0.0, 3.0, 13.0, 50.0, -LOG_ZERO])
    log_lam, log_rest = log_shares_of_both(Combination(log_odds[:, None], log_odds, log_odds, log_odds[:, None]))
    assert torch.isfinite(log_lam).all()
    assert torch.isfinite(log_rest).all()
    torch.testing.assert_close(log_lam.exp() + log_rest.exp(), torch.ones(8))
    expected = 1 / (1 + np.exp(-log_odds[1:6].double().numpy()))
    np.testing.assert_allclose(log_lam[1:6], np.log(expected), rtol=SINGLE)
    np.testing.assert_allclose(log_rest[1:6], np.log1p(-expected), rtol=SINGLE, atol=1e-12)
    assert log_rest[6:].exp().tolist() == pytest.approx([1e-6, 1e-6], rel=0.05)


def test_no_log_p_is_minus_infinity() -> None:
    """Banned tokens, an unlikely stored pair, and a model that is sure beyond what a float can say."""
    logits = torch.tensor([[3e38, 0.0, -3e38], [0.0, -torch.inf, 1.0]])
    found = Neighbours(
        np.array([[4, 5], [6, 7]]),
        np.ones((2, 2), np.float32),
        np.array([[2, 1], [1, 0]], np.int32),
        np.array([[-np.inf, -2], [-3e38, 0]], np.float32),
    )
    seen = observe(found, Logits(logits), top=3)
    for column in (seen.log_confidence, seen.log_p_values, seen.log_p_top):
        assert torch.isfinite(column).all()
        assert column.min() == LOG_ZERO
    assert seen.log_confidence[0, 1] == -2
    assert seen.log_p_top[0, 0] == 0
