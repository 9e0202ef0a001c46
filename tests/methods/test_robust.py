"""Section 4 of the paper, equation by equation, against loops over neighbours and tokens in double precision."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import DOUBLE, SINGLE
from worlds import observed

from knnmt.combiner import Observation, mix_logits, mixture_log_p
from knnmt.errors import MethodError
from knnmt.methods import Robust
from knnmt.methods.robust import PRESETS

ROWS, VOCABULARY, SCALE = 12, 41, 3.5
TEMPERATURES = ("sigmoid", "paper")


def world(k: int, top: int, dtype: torch.dtype = torch.float64) -> tuple[Observation, torch.Tensor]:
    """What was found for each row, and the model's log p of every token."""
    rng = np.random.default_rng(k)
    distances = np.sort(rng.random((ROWS, k)) * 6 * SCALE, axis=1)
    values = rng.integers(0, 9, (ROWS, k))
    confidence = -rng.exponential(2.0, (ROWS, k))
    values[0] = 7  # all say the same
    distances[3] = 0
    for row, there in ((1, k - 3), (2, 0)):  # some are missing, all are missing
        distances[row, there:], values[row, there:], confidence[row, there:] = np.inf, 0, 0
    log_p = torch.from_numpy(rng.normal(0, 3, (ROWS, VOCABULARY))).log_softmax(1)
    of_values = torch.from_numpy(values)
    seen = observed(
        distances=torch.from_numpy(distances).to(dtype),
        values=of_values,
        log_confidence=torch.from_numpy(confidence).to(dtype),
        log_p_values=log_p.gather(1, of_values).to(dtype),
        log_p_top=log_p.sort(1, descending=True).values[:, :top].to(dtype),
    )
    return seen, log_p.to(dtype)


@dataclass
class Answer:
    """What the equations give for one row."""

    t: float
    c: list[float]
    lam: float
    weights: list[float]
    p: list[float]


def linear(weights: dict[str, Any], name: str, inputs: list[float]) -> list[float]:
    matrix, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return [sum(w * x for w, x in zip(row, inputs, strict=True)) + b for row, b in zip(matrix, bias, strict=True)]


def two_layers(weights: dict[str, Any], name: str, inputs: list[float]) -> list[float]:
    return linear(weights, f"{name}.2", [math.tanh(x) for x in linear(weights, f"{name}.0", inputs)])


def equations(combiner: Robust, seen: Observation, log_p: torch.Tensor) -> Iterator[Answer]:
    weights = {name: tensor.double().tolist() for name, tensor in combiner.network.state_dict().items()}
    for row in range(len(log_p)):
        raw = [d for d in seen.distances[row].tolist() if d < math.inf]
        found, k = len(raw), seen.distances.shape[1]
        values = seen.values[row].tolist()
        # what a network with 2K inputs sees of a neighbour that is not there: as far as the last, nothing new, log p 0
        d = [x / combiner.scale for x in raw + [max(raw, default=0.0)] * (k - found)]
        r = [float(len(set(values[: min(i + 1, found)]))) for i in range(k)]
        at_key = seen.log_confidence[row].tolist()[:found] + [0.0] * (k - found)
        at_query = [log_p[row, v].item() for v in values[:found]] + [0.0] * (k - found)
        top = sorted(log_p[row].tolist(), reverse=True)[: combiner.needs.top]

        s_knn, o = two_layers(weights, "shared", d + r)
        t = 1 + math.exp(-o) if combiner.temperature == "sigmoid" else math.log1p(math.exp(o))
        c = [0.0] * k
        if "dc" not in combiner.without:
            c = [two_layers(weights, "dc", [at_key[i], at_query[i]])[0] for i in range(k)]
        s_nmt = 0.0
        if "wp" not in combiner.without:
            (s_nmt,) = linear(weights, "nmt", top + at_key + at_query)
        lam = math.exp(s_knn) / (math.exp(s_knn) + math.exp(s_nmt)) if found else 0.0

        exponentials = [math.exp(-d[i] / t + c[i]) for i in range(found)]
        shares = [x / sum(exponentials) for x in exponentials]
        p_knn = [0.0] * VOCABULARY
        for value, share in zip(values, shares, strict=False):
            p_knn[value] += share
        p = [lam * p_knn[v] + (1 - lam) * math.exp(log_p[row, v].item()) for v in range(VOCABULARY)]
        yield Answer(t * combiner.scale, c, lam, shares + [0.0] * (k - found), p)


CASES: list[tuple[int, dict[str, Any]]] = [
    *((k, {"temperature": form}) for k in (4, 8, 16, 32) for form in TEMPERATURES),
    *((8, {"temperature": form, "without": without}) for form in TEMPERATURES for without in ("wp", "dc", "wp dc")),
    *((8, sizes) for sizes in PRESETS.values()),
    *((8, {"top": top}) for top in (0, 3, 20)),
    (8, {"dc": 1, "wp": 1, "seed": 9}),
]


@pytest.mark.parametrize(("k", "options"), CASES, ids=str)
def test_the_equations(k: int, options: dict[str, Any]) -> None:
    """T in raw units, c_k, λ, the neighbours' weights, and the whole mixture both ways it is computed."""
    combiner = Robust(k, SCALE, **options | {"without": options.get("without", "").split()})
    combiner.network.double()
    seen, log_p = world(k, combiner.needs.top)
    with torch.inference_mode():
        answer = combiner.combine(seen)
        mixed = log_p.clone()
        mix_logits(mixed, log_p.logsumexp(1), seen.values, answer)
        by_token = torch.stack(
            [
                mixture_log_p(answer, seen.values, torch.full((ROWS,), token), log_p[:, token])
                for token in range(VOCABULARY)
            ],
            1,
        )
    expected = list(equations(combiner, seen, log_p))
    there = seen.exists.numpy()
    np.testing.assert_allclose(answer.temperature, [row.t for row in expected], rtol=DOUBLE)
    np.testing.assert_allclose(answer.c.numpy()[there], np.array([row.c for row in expected])[there], atol=DOUBLE)
    np.testing.assert_allclose(answer.lam, [row.lam for row in expected], rtol=DOUBLE)
    np.testing.assert_allclose(answer.weights, [row.weights for row in expected], rtol=DOUBLE)
    np.testing.assert_allclose(by_token.exp(), [row.p for row in expected], rtol=DOUBLE)
    np.testing.assert_allclose(mixed.softmax(1), [row.p for row in expected], rtol=SINGLE)  # in float32
    np.testing.assert_allclose(by_token.exp().sum(1), 1, rtol=DOUBLE)
    with_neighbours = answer.lam[seen.exists.any(1)]
    assert ((with_neighbours > 0) & (with_neighbours < 1)).all()
    assert with_neighbours.std() > 1e-4, "the rows differ"


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_single_precision_is_near(temperature: str) -> None:
    combiner = Robust(8, SCALE, temperature=temperature)
    seen, log_p = world(8, 8, torch.float32)
    answer = combiner.combine(seen)
    expected = list(equations(combiner, seen, log_p))
    np.testing.assert_allclose(answer.weights.detach(), [row.weights for row in expected], rtol=SINGLE)
    np.testing.assert_allclose(answer.lam.detach(), [row.lam for row in expected], rtol=SINGLE)
    np.testing.assert_allclose(answer.temperature.detach(), [row.t for row in expected], rtol=SINGLE)
    assert answer.lam.dtype == answer.weights.dtype == torch.float32


def test_the_scale_is_divided_out_in_one_place() -> None:
    """Keys in other units, the scale in the same: nothing but the reported T knows."""
    near, far = Robust(8, 2.0, seed=3), Robust(8, 2000.0, seed=3)
    seen, _ = world(8, 8)
    near.network.double(), far.network.double()
    one, other = near.combine(seen), far.combine(replace(seen, distances=seen.distances * 1000))
    torch.testing.assert_close(one.log_weights, other.log_weights)
    torch.testing.assert_close(one.log_odds, other.log_odds)
    torch.testing.assert_close(one.temperature * 1000, other.temperature)


@pytest.mark.to_the_bit
@pytest.mark.parametrize(("part", "heeds"), [("wp", ("weights",)), ("dc", ("lam",)), ("wp dc", ())])
def test_what_is_left_out_does_not_look_at_the_model(part: str, heeds: tuple[str, ...]) -> None:
    """Without WP λ is blind to every log p; without DC the neighbours' weights are."""
    combiner = Robust(8, SCALE, without=part.split())
    seen, _ = world(8, combiner.needs.top, torch.float32)
    less_sure = replace(seen, log_confidence=seen.log_confidence - 1, log_p_values=seen.log_p_values - 2)
    before, after = combiner.combine(seen), combiner.combine(less_sure)
    for name in ("weights", "lam"):
        assert torch.equal(getattr(before, name), getattr(after, name)) == (name not in heeds)
    assert bool(before.c.any()) == ("dc" not in part)
    assert combiner.needs.top == (0 if "wp" in part else 8)


def test_the_sizes_are_those_of_the_presets() -> None:
    combiners = {name: Robust(8, 1.0, dc=sizes["dc"], wp=sizes["wp"]) for name, sizes in PRESETS.items()}
    shapes = {
        name: {key: tuple(tensor.shape) for key, tensor in combiner.network.state_dict().items()}
        for name, combiner in combiners.items()
    }
    for name, dc, wp in (("released", 4, 32), ("paper", 32, 4)):
        assert shapes[name] == {
            "shared.0.weight": (wp, 16),
            "shared.0.bias": (wp,),
            "shared.2.weight": (2, wp),
            "shared.2.bias": (2,),
            "dc.0.weight": (dc, 2),
            "dc.0.bias": (dc,),
            "dc.2.weight": (1, dc),
            "dc.2.bias": (1,),
            "nmt.weight": (1, 24),
            "nmt.bias": (1,),
        }
    default = Robust(8, 1.0)
    assert {"dc": default.dc, "wp": default.wp} == PRESETS["released"]
    assert default.needs.top == 8


def test_it_starts_as_pytorch_starts_linear_layers() -> None:
    """Weights and biases uniform within 1/√inputs."""
    for name, tensor in Robust(32, 1.0, dc=64, wp=64).network.state_dict().items():
        layer = name.rsplit(".", 1)[0]
        inputs = {"shared.0": 64, "shared.2": 64, "dc.0": 2, "dc.2": 64, "nmt": 96}[layer]
        bound = inputs**-0.5
        assert 0 < tensor.abs().max() <= bound
        if tensor.numel() > 60:
            assert tensor.std().item() == pytest.approx(bound / 3**0.5, rel=0.2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "K is 0"),
        ({"k": -4}, "K is -4"),
        ({"scale": 0.0}, "scale"),
        ({"scale": -1.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"temperature": "softplus"}, "sigmoid, paper"),
        ({"without": ["dc", "lambda"]}, "no network lambda"),
        ({"dc": 0}, "hidden"),
        ({"wp": 0}, "hidden"),
        ({"top": -1}, "top"),
    ],
)
def test_impossible_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(MethodError, match=says):
        Robust(**{"k": 4, "scale": 1.0} | options)
