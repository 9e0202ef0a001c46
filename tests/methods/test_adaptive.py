"""The meta-k network against loops over the choices 0, 1, 2, 4, …, K."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import DOUBLE, SINGLE
from torch import nn
from worlds import observed

from knnmt.combiner import Observation, mix_logits, mixture_log_p
from knnmt.errors import MethodError
from knnmt.methods import Adaptive

ROWS, VOCABULARY, SCALE, T = 11, 31, 2.5, 6.0


def world(k: int) -> tuple[Observation, torch.Tensor]:
    rng = np.random.default_rng(k)
    distances = np.sort(rng.random((ROWS, k)) * 20, axis=1)
    values = rng.integers(0, 7, (ROWS, k))
    values[0] = 3  # all say the same
    distances[1] = 0
    for row, there in ((2, (k + 1) // 2), (3, 1), (4, 0)):  # some are missing, all but one, all
        distances[row, there:], values[row, there:] = np.inf, 0
    log_p = torch.from_numpy(rng.normal(0, 2, (ROWS, VOCABULARY))).log_softmax(1)
    of_values = torch.from_numpy(values)
    seen = observed(
        torch.from_numpy(distances),
        of_values,
        torch.from_numpy(-rng.random((ROWS, k))),
        log_p.gather(1, of_values),
        log_p[:, :0],
    )
    return seen, log_p


def layers(combiner: Adaptive) -> tuple[nn.Linear, nn.Linear]:
    first, _, last = combiner.network
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    return first, last


def naive(combiner: Adaptive, seen: Observation, row: int) -> tuple[float, list[float]]:
    """λ and the share of every neighbour in the whole mixture (they sum to λ)."""
    w1, b1, w2, b2 = (tensor.double().numpy() for tensor in combiner.network.state_dict().values())
    raw = [d for d in seen.distances[row].tolist() if d < math.inf]
    values, k = seen.values[row].tolist(), combiner.k
    if not raw:
        return 0.0, [0.0] * k
    d = [x / combiner.scale for x in raw + [max(raw)] * (k - len(raw))]
    r = [len(set(values[: min(i + 1, len(raw))])) for i in range(k)]
    outputs = w2 @ np.tanh(w1 @ np.array(d + r) + b1) + b2
    p = np.exp(outputs) / np.exp(outputs).sum()
    choices = [0]
    while choices[-1] < k:
        choices.append(max(1, 2 * choices[-1]))
    shares = [0.0] * k
    for size, p_choice in zip(choices, p, strict=True):
        exponentials = [math.exp(-x / combiner.temperature) for x in raw[:size]]
        for i, x in enumerate(exponentials):
            shares[i] += p_choice * x / sum(exponentials)
    return 1 - p[0], shares


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("loud", [1.0, 20.0])
def test_the_choices_mixed_by_hand(k: int, loud: float) -> None:
    """With weights as initialised the inputs hardly matter, so they are made louder too."""
    combiner = Adaptive(k, SCALE, T, hidden=5 if k == 8 else 32, seed=2)
    combiner.network.double()
    first, last = layers(combiner)
    seen, log_p = world(k)
    with torch.inference_mode():
        first.weight.mul_(loud)
        last.weight.mul_(loud**0.5)
        answer = combiner.combine(seen)
        mixed = log_p.clone()
        mix_logits(mixed, log_p.logsumexp(1), seen.values, answer)
    for row in range(ROWS):
        lam, shares = naive(combiner, seen, row)
        assert answer.lam[row].item() == pytest.approx(lam, rel=DOUBLE)
        np.testing.assert_allclose(answer.lam[row] * answer.weights[row], shares, rtol=DOUBLE)
        if row != 4:
            assert 0 < lam < 1
            assert answer.weights[row].sum().item() == pytest.approx(1, rel=DOUBLE)
        dense = (1 - lam) * log_p[row].exp().numpy()
        for value, share in zip(seen.values[row].tolist(), shares, strict=True):
            dense[value] += share
        np.testing.assert_allclose(mixed[row].softmax(0), dense, rtol=SINGLE)  # in float32
        of_tokens = [
            mixture_log_p(answer, seen.values, torch.full((ROWS,), v), log_p[:, v])[row].exp().item()
            for v in range(VOCABULARY)
        ]
        np.testing.assert_allclose(of_tokens, dense, rtol=DOUBLE)
        assert sum(of_tokens) == pytest.approx(1, rel=DOUBLE)
    assert answer.temperature.tolist() == [T] * ROWS
    assert not answer.c.any()


def test_each_choice_takes_the_nearest_so_many() -> None:
    """A network that is sure of one choice: equally near neighbours then share equally, and no one else."""
    combiner = Adaptive(8, 1.0, T)
    seen, _ = world(8)
    seen = replace(seen, distances=torch.full_like(seen.distances, 2.0))
    combiner.network.double()
    for choice, size in enumerate((0, 1, 2, 4, 8)):
        with torch.inference_mode():
            for parameter in combiner.network.parameters():
                parameter.zero_()
            layers(combiner)[1].bias[choice] = 60
            answer = combiner.combine(seen)
        if size == 0:
            assert answer.lam.max() < 1e-20
        else:
            assert answer.lam.min() > 1 - 1e-12
            expected = torch.zeros(8, dtype=torch.float64)
            expected[:size] = 1 / size
            torch.testing.assert_close(answer.weights, expected.expand(ROWS, 8))


def test_t_is_in_raw_distances_and_the_scale_is_for_the_network() -> None:
    one, other = Adaptive(8, 2.0, T, seed=1), Adaptive(8, 200.0, T * 100, seed=1)
    seen, _ = world(8)
    one.network.double(), other.network.double()
    near, far = one.combine(seen), other.combine(replace(seen, distances=seen.distances * 100))
    torch.testing.assert_close(near.log_weights, far.log_weights)
    torch.testing.assert_close(near.log_odds, far.log_odds)


def test_the_first_layer_starts_quiet() -> None:
    """Xavier normal, gain 0.01 on distances and 0.1 on counts; everything else as PyTorch starts it."""
    k, hidden = 32, 64
    first, last = layers(Adaptive(k, 1.0, T, hidden=hidden))
    xavier = math.sqrt(2 / (k + hidden))
    for weight, gain in ((first.weight[:, :k], 0.01), (first.weight[:, k:], 0.1)):
        assert weight.std().item() == pytest.approx(gain * xavier, rel=0.08)
        assert abs(weight.mean().item()) < 0.1 * gain * xavier
        assert weight.abs().max() > 2.5 * gain * xavier, "normal, not uniform"
    assert 0 < first.bias.abs().max() <= (2 * k) ** -0.5
    assert 0 < last.weight.abs().max() <= hidden**-0.5
    assert last.weight.std().item() == pytest.approx((3 * hidden) ** -0.5, rel=0.2)
    assert tuple(last.weight.shape) == (2 + 5, hidden)


@pytest.mark.parametrize("k", [3, 5, 6, 12, 24])
def test_k_must_be_a_power_of_two(k: int) -> None:
    with pytest.raises(MethodError, match=f"K cannot be {k}"):
        Adaptive(k, 1.0, T)


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": -8},
        {"scale": 0.0},
        {"scale": math.nan},
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"hidden": 0},
    ],
    ids=str,
)
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(MethodError):
        Adaptive(**{"k": 8, "scale": 1.0, "temperature": T} | options)
