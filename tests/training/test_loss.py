"""The loss against rows of the whole vocabulary, its gradient against finite differences, and hostile inputs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import DOUBLE, SHARE
from torch import Tensor, nn
from worlds import observed

from knnmt.combiner import LOG_ZERO, Combination, Observation, Trained, mix_logits, mixture_log_p, observe
from knnmt.methods import Adaptive, Robust, Vanilla
from knnmt.model import Logits
from knnmt.search import Neighbours
from knnmt.training.loss import smoothed_nll

ROWS, K, VOCABULARY = 24, 8, 37

COMBINERS: dict[str, Callable[[float], Trained]] = {
    "sigmoid": lambda scale: Robust(K, scale, seed=4),
    "paper": lambda scale: Robust(K, scale, temperature="paper", dc=32, wp=4, seed=4),
    "without dc": lambda scale: Robust(K, scale, without=["dc"], seed=4),
    "without wp": lambda scale: Robust(K, scale, temperature="paper", without=["wp"], seed=4),
    "without both": lambda scale: Robust(K, scale, without=["wp", "dc"], seed=4),
    "adaptive": lambda scale: Adaptive(K, scale, 5 * scale, seed=4),
}


def world(top: int = K) -> tuple[Observation, Tensor, Tensor]:
    """Found, the model's log p of every token, gold: repeated tokens, missing neighbours, gold found and not found."""
    rng = np.random.default_rng(8)
    distances = np.sort(rng.random((ROWS, K)) * 12, axis=1)
    values = rng.integers(0, 6, (ROWS, K))
    tokens = rng.integers(0, 12, ROWS)
    confidence = -rng.exponential(2, (ROWS, K))
    values[0] = 5
    for row, there in ((1, 5), (2, 1), (3, 0), (4, 4), (5, 4)):
        distances[row, there:], values[row, there:], confidence[row, there:] = np.inf, 0, 0
    values[4, 2], tokens[4] = 0, 0  # what fills up the row is also a token that was found, and the right one
    values[5, :4], tokens[5] = [3, 2, 3, 1], 0  # … or was not found
    log_p = torch.from_numpy(rng.normal(0, 3, (ROWS, VOCABULARY))).log_softmax(1)
    of_values = torch.from_numpy(values)
    seen = observed(
        torch.from_numpy(distances),
        of_values,
        torch.from_numpy(confidence),
        log_p.gather(1, of_values),
        log_p.sort(1, descending=True).values[:, :top],
    )
    return seen, log_p, torch.from_numpy(tokens)


def loss_of(answer: Combination, seen: Observation, log_p: Tensor, tokens: Tensor, smoothing: float) -> Tensor:
    gold = log_p.gather(1, tokens[:, None]).squeeze(1)
    return smoothed_nll(answer, seen, tokens, gold, log_p.sum(1), log_p.shape[1], smoothing)


def dense_loss(answer: Combination, seen: Observation, log_p: Tensor, tokens: Tensor, smoothing: float) -> list[float]:
    """(1 − ε) · −log p(gold) + ε / V · Σ −log p(v), token after token."""
    losses = []
    for row in range(len(tokens)):
        lam = answer.lam[row].item()
        p = [(1 - lam) * math.exp(x) for x in log_p[row].tolist()]
        for k, value in enumerate(seen.values[row].tolist()):
            if seen.distances[row, k] < math.inf:
                p[value] += lam * answer.weights[row, k].item()
        uniform = sum(-math.log(x) for x in p) / len(p)
        losses.append((1 - smoothing) * -math.log(p[int(tokens[row])]) + smoothing * uniform)
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.001, 0.1, 0.9])
@pytest.mark.parametrize("name", ["sigmoid", "adaptive", "vanilla"])
def test_the_loss_is_that_of_the_whole_distribution(name: str, smoothing: float) -> None:
    """With a large ε too: at 0.001 a wrong sum over the vocabulary would pass for rounding."""
    seen, log_p, tokens = world()
    if name == "vanilla":
        answer = Vanilla(K, 0.7, 4.0).combine(seen)
    else:
        combiner = COMBINERS[name](1.0)
        combiner.network.double()
        answer = combiner.combine(seen)
    found = loss_of(answer, seen, log_p, tokens, smoothing)
    np.testing.assert_allclose(found.detach(), dense_loss(answer, seen, log_p, tokens, smoothing), rtol=DOUBLE)
    has_gold = ((seen.values == tokens[:, None]) & seen.exists).any(1)
    assert has_gold.any()
    assert not has_gold.all()
    assert bool(has_gold[4]) > bool(has_gold[5])


@pytest.mark.parametrize("name", COMBINERS)
def test_the_gradient_is_the_slope_of_the_loss(name: str) -> None:
    """Every parameter tensor, along random directions; 0.1 of smoothing so that its part of the gradient counts."""
    combiner = COMBINERS[name](1.5)
    combiner.network.double()
    if isinstance(combiner, Adaptive):
        with torch.no_grad():
            next(combiner.network.parameters()).mul_(10)  # as initialised, its first layer is almost blind
    seen, log_p, tokens = world(combiner.needs.top)

    def loss() -> Tensor:
        return loss_of(combiner.combine(seen), seen, log_p, tokens, 0.1).mean()

    loss().backward()  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(6)
    step = 1e-5
    for parameter_name, parameter in combiner.network.named_parameters():
        assert parameter.grad is not None
        shifts_every_c = parameter_name == "dc.2.bias"  # of which a softmax knows nothing
        assert (parameter.grad.abs().max() > 1e-6) != shifts_every_c, f"{parameter_name} learns nothing"
        for _ in range(4):
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            around = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.add_(sign * step * direction)
                    around.append(loss().item())
                    parameter.sub_(sign * step * direction)
            slope = (around[0] - around[1]) / (2 * step)
            assert (parameter.grad * direction).sum().item() == pytest.approx(slope, rel=1e-5, abs=1e-8), parameter_name


def hostile(**changes: Any) -> tuple[Observation, Tensor, Tensor]:
    """As decoding sees it, in single precision, with something of it replaced."""
    rng = np.random.default_rng(2)
    parts: dict[str, Any] = {
        "distances": np.sort(rng.random((ROWS, K)) * 20, axis=1),
        "values": rng.integers(0, VOCABULARY, (ROWS, K)),
        "confidence": -rng.exponential(2, (ROWS, K)),
        "logits": rng.normal(0, 3, (ROWS, VOCABULARY)),
        "tokens": rng.integers(0, VOCABULARY, ROWS),
    }
    for name, change in changes.items():
        parts[name] = np.broadcast_to(change, parts[name].shape).copy()
    missing = np.isinf(parts["distances"])
    parts["values"][missing] = parts["confidence"][missing] = 0
    logits = torch.from_numpy(parts["logits"]).float()
    neighbours = Neighbours(
        np.where(missing, -1, 1),
        parts["distances"].astype(np.float32),
        parts["values"].astype(np.int32),
        parts["confidence"].astype(np.float32),
    )
    return observe(neighbours, Logits(logits), K), logits, torch.from_numpy(parts["tokens"])


SURE = np.where(np.arange(VOCABULARY) == 11, 1e3, 0.0)
HOSTILE: dict[str, dict[str, Any]] = {
    "sure of the right token": {"logits": SURE, "tokens": 11},
    "sure of a wrong token": {"logits": SURE, "tokens": 4},
    "sure against a right neighbour": {"logits": SURE, "tokens": 4, "values": np.arange(K)},
    "sure beyond measure": {"logits": SURE * 20, "tokens": 4},
    "banned tokens": {"logits": np.where(np.arange(VOCABULARY) < 9, -np.inf, 1.0), "tokens": 4, "values": 8},
    "unlikely keys": {"confidence": -np.inf},
    "at no distance": {"distances": 0.0},
    "all equally far": {"distances": 37.25},
    "one value": {"values": 4, "tokens": 4},
    "one value, wrong": {"values": 4, "tokens": 5},
    "far away": {"distances": 1e8},
    "one near, others far away": {"distances": np.where(np.arange(K) == 0, 0.0, 1e8)},
    "some missing": {"distances": np.where(np.arange(K) < 3, 2.0, np.inf), "tokens": 0},
    "none found": {"distances": np.inf, "tokens": 0},
    "some rows without any": {"distances": np.where(np.arange(ROWS)[:, None] % 2, np.inf, 3.0)},
    "everything at once": {
        "distances": np.where(np.arange(K) < 2, 1e8, np.inf) * (np.arange(ROWS)[:, None] + 1),
        "logits": SURE * 20,
        "confidence": -np.inf,
        "tokens": 4,
    },
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", COMBINERS)
def test_nothing_breaks(name: str, case: str) -> None:
    """λ is a share, both forms of the mixture sum to 1, loss and gradients are finite; for quiet and loud networks."""
    seen, logits, tokens = hostile(**HOSTILE[case])
    log_p = logits.log_softmax(1).clamp_min(LOG_ZERO)
    for scale, loud in ((1.0, 1.0), (1e-3, 1.0), (1.0, 40.0)):
        combiner = COMBINERS[name](scale)
        with torch.no_grad():
            for parameter in combiner.network.parameters():
                parameter.mul_(loud)
        answer = combiner.combine(seen)
        for column in (answer.log_weights, answer.log_odds, answer.temperature, answer.c):
            assert torch.isfinite(column).all()
        assert (answer.temperature > 0).all()
        assert ((answer.lam >= 0) & (answer.lam <= 1)).all()
        found = seen.exists[:, 0]
        torch.testing.assert_close(answer.weights.sum(1), found.float())
        assert (answer.weights[~seen.exists] == 0).all()
        assert (answer.lam[~found] == 0).all()
        loss = loss_of(answer, seen, log_p, tokens, 0.001)
        assert torch.isfinite(loss).all()
        loss.mean().backward()  # type: ignore[no-untyped-call]
        for parameter in combiner.network.parameters():
            assert parameter.grad is not None
            assert torch.isfinite(parameter.grad).all()
        with torch.inference_mode():
            mixed = logits.clone()
            mix_logits(mixed, logits.logsumexp(1), seen.values, answer)
            by_token = torch.stack(
                [mixture_log_p(answer, seen.values, torch.full_like(tokens, v), log_p[:, v]) for v in range(VOCABULARY)]
            )
        assert not torch.isnan(mixed).any()
        assert torch.isfinite(mixed[torch.isfinite(logits)]).all()
        assert torch.isfinite(by_token).all()
        torch.testing.assert_close(by_token.exp().sum(0), torch.ones(ROWS), rtol=0, atol=SHARE)
        rounding = 2e-7 * logits.max().item()  # of a large logit
        torch.testing.assert_close(mixed.softmax(1).T, by_token.exp(), rtol=0, atol=SHARE + rounding)


@pytest.mark.parametrize("case", ["at no distance", "all equally far", "far away", "some missing", "none found"])
@pytest.mark.parametrize("temperature", ["sigmoid", "paper"])
@pytest.mark.parametrize("heat", [-1e4, -200.0, 200.0, 1e4])
def test_a_temperature_of_nothing_or_without_end(heat: float, temperature: str, case: str) -> None:
    """Where softplus and sigmoid are 0 in single precision: T and 1/T stay finite, and so does the gradient."""
    seen, logits, tokens = hostile(**HOSTILE[case])
    combiner = Robust(K, 1.0, temperature=temperature)
    last = combiner.network.shared[2]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias[1] = heat
    answer = combiner.combine(seen)
    assert ((answer.temperature > 0) & torch.isfinite(answer.temperature)).all()
    torch.testing.assert_close(answer.weights.sum(1), seen.exists[:, 0].float())
    loss = loss_of(answer, seen, logits.log_softmax(1), tokens, 0.001).mean()
    assert torch.isfinite(loss)
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in combiner.network.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
