"""The evidence method against loops over rows and neighbours in double precision."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import DOUBLE, SINGLE
from worlds import observed

from knnmt.combiner import CONTEXT, Observation, mixture_log_p
from knnmt.errors import MethodError
from knnmt.methods import Evidence
from knnmt.methods.evidence_inputs import KINDS, of_neighbours, of_rows

ROWS, VOCABULARY, SCALE = 12, 41, 3.5


def world(k: int, dtype: torch.dtype = torch.float64) -> tuple[Observation, torch.Tensor]:
    """What was found for each row, and the model's log p of every token."""
    rng = np.random.default_rng(k)
    distances = np.sort(rng.random((ROWS, k)) * 6 * SCALE, axis=1)
    values = rng.integers(0, 9, (ROWS, k))
    confidence = -rng.exponential(2.0, (ROWS, k))
    confidence[4] = -70
    past, cosine = rng.integers(0, 7, (ROWS, k)), rng.random((ROWS, k))
    beginning, continued = rng.random((ROWS, k)) < 0.3, rng.random((ROWS, k)) < 0.3
    values[0] = 7  # all say the same
    distances[3] = 0
    for row, there in ((1, k - 3), (2, 0)):  # some are missing, all are missing
        distances[row, there:] = np.inf
        for column in (values, confidence, past, cosine, beginning, continued):
            column[row, there:] = 0
    log_p = torch.from_numpy(rng.normal(0, 3, (ROWS, VOCABULARY))).log_softmax(1)
    of_values = torch.from_numpy(values)
    seen = observed(
        distances=torch.from_numpy(distances).to(dtype),
        values=of_values,
        log_confidence=torch.from_numpy(confidence).to(dtype),
        log_p_values=log_p.gather(1, of_values).to(dtype),
        log_p_top=log_p.sort(1, descending=True).values[:, :8].to(dtype),
        matching_past=torch.from_numpy(past),
        same_beginning=torch.from_numpy(beginning),
        source_similarity=torch.from_numpy(cosine).to(dtype),
        continued=torch.from_numpy(continued),
    )
    return seen, log_p.to(dtype)


def prepared(k: int, **options: Any) -> Evidence:
    """With inputs measured on the world, and weights that make a difference."""
    combiner = Evidence(k, SCALE, **options)
    combiner.network.double()
    combiner.prepare(world(k)[0])
    with torch.no_grad():
        combiner.network.log_inverse_temperature.fill_(0.3)
    return combiner


@dataclass
class Answer:
    """What the equations give for one row."""

    scores: list[float]
    c: list[float]
    model: float
    p: list[float]


def linear(weights: dict[str, Any], name: str, inputs: list[float]) -> list[float]:
    matrix = weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias", [0.0] * len(matrix))
    return [sum(w * x for w, x in zip(row, inputs, strict=True)) + b for row, b in zip(matrix, bias, strict=True)]


def relu(inputs: list[float]) -> list[float]:
    return [max(x, 0.0) for x in inputs]


def standard(weights: dict[str, Any], name: str, inputs: list[float]) -> list[float]:
    mean, deviation = weights[f"{name}.mean"], weights[f"{name}.deviation"]
    return [(x - m) / d for x, m, d in zip(inputs, mean, deviation, strict=True)]


def equations(combiner: Evidence, seen: Observation, log_p: torch.Tensor) -> Iterator[Answer]:
    weights = {name: tensor.double().tolist() for name, tensor in combiner.network.state_dict().items()}
    width = seen.distances.shape[1]
    for row in range(len(log_p)):
        d = [x / SCALE for x in seen.distances[row].tolist() if x < math.inf]
        k = len(d)
        values = seen.values[row].tolist()[:k]
        at_key = [max(x, -20.0) for x in seen.log_confidence[row].tolist()[:k]]
        at_query = [max(log_p[row, v].item(), -20.0) for v in values]
        cosines = seen.source_similarity[row].tolist()[:k] if seen.source_similarity is not None else []
        inputs = []
        for i in range(k):
            share = values.count(values[i]) / k
            of_one = [d[i], d[i] - d[0], math.log(max(d[i], 1e-3)), i / width]
            of_one += [at_key[i], math.exp(at_key[i]), at_query[i], math.exp(at_query[i])]
            of_one += [share, math.log(share)]
            if seen.matching_past is not None and seen.same_beginning is not None:
                m = int(seen.matching_past[row, i])
                of_one += [min(m, 4), math.log(1 + m), float(seen.same_beginning[row, i])]
            if cosines:
                of_one += [cosines[i], cosines[i] - max(cosines)]
            if seen.continued is not None:
                of_one += [float(seen.continued[row, i])]
            inputs.append(standard(weights, "neighbours", of_one))

        far = d + [max(d, default=0.0)] * (width - k)  # a missing neighbour is as far as the last one
        near = [math.exp(d[0] - x) for x in d]
        of_row = [max(x, -20.0) for x in sorted(log_p[row].tolist(), reverse=True)[:8]]
        of_row += [far[rank - 1] for rank in sorted({1, 2, 4, 8, width // 2, width}) if 0 < rank <= width]
        of_row += [math.log(max(len(set(values[:n])), 1)) for n in (8, width)]
        of_row += [
            sum(n * x for n, x in zip(near, each, strict=True)) / (sum(near) or 1) for each in (at_key, at_query)
        ]
        of_row = standard(weights, "rows", of_row)

        c = []
        for one in inputs:
            first = [
                a + b
                for a, b in zip(linear(weights, "of_neighbour", one), linear(weights, "of_row", of_row), strict=True)
            ]
            second = relu(linear(weights, "score.1", relu(first)))
            c.append(linear(weights, "linear", one)[0] + linear(weights, "score.3", second)[0])
        second = relu(linear(weights, "model.2", relu(linear(weights, "model.0", of_row))))
        model = linear(weights, "model_linear", of_row)[0] + linear(weights, "model.4", second)[0]
        scores = [c[i] - (d[i] - d[0]) * math.exp(weights["log_inverse_temperature"]) for i in range(k)]

        # one softmax over the model and all neighbours
        total = math.exp(model) + sum(math.exp(s) for s in scores)
        p = [math.exp(model) / total * math.exp(log_p[row, v].item()) for v in range(VOCABULARY)]
        for value, score in zip(values, scores, strict=True):
            p[value] += math.exp(score) / total
        yield Answer(scores, c, model, p)


CASES: list[tuple[int, dict[str, Any]]] = [
    *((k, {}) for k in (4, 8, 16, 32)),
    (5, {"hidden": 3}),
    *((8, {"without": [part]}) for part in CONTEXT),
    (8, {"without": list(CONTEXT)}),
]


@pytest.mark.parametrize(("k", "options"), CASES, ids=str)
def test_the_equations(k: int, options: dict[str, Any]) -> None:
    combiner = prepared(k, **options)
    whole, log_p = world(k)
    seen = whole.take(slice(None), combiner.needs)
    with torch.inference_mode():
        answer = combiner.combine(seen)
        tokens = torch.arange(VOCABULARY).expand(ROWS, -1)
        mixed = mixture_log_p(answer, seen.values, tokens, log_p).exp()
    expected = list(equations(combiner, seen, log_p))
    np.testing.assert_allclose(mixed, [row.p for row in expected], rtol=DOUBLE)
    np.testing.assert_allclose(answer.temperature, SCALE / math.exp(0.3), rtol=DOUBLE)
    for number, row in enumerate(expected):
        there = len(row.scores)
        np.testing.assert_allclose(answer.c[number, :there], row.c, rtol=DOUBLE, atol=DOUBLE)
        if there:
            odds = math.log(sum(math.exp(s) for s in row.scores)) - row.model
            assert answer.log_odds[number].item() == pytest.approx(odds, rel=DOUBLE, abs=DOUBLE)
    assert answer.lam[2] == 0, "nothing was found"
    assert answer.lam[seen.exists.any(1)].std() > 1e-4, "the rows differ"


def test_single_precision_is_near() -> None:
    combiner = prepared(8)
    combiner.network.float()
    seen, log_p = world(8, torch.float32)
    answer = combiner.combine(seen)
    tokens = torch.arange(VOCABULARY).expand(ROWS, -1)
    mixed = mixture_log_p(answer, seen.values, tokens, log_p).exp()
    expected = list(equations(combiner, *world(8)))
    np.testing.assert_allclose(mixed.detach(), [row.p for row in expected], rtol=10 * SINGLE)
    assert answer.lam.dtype == answer.weights.dtype == torch.float32


def test_contributions_are_against_an_average_neighbour() -> None:
    combiner = prepared(8)
    seen, _ = world(8)
    found = combiner.contributions(seen)
    assert list(found) == list(KINDS)
    scores = combiner.combine(seen)
    inputs = of_neighbours(seen, SCALE)
    for kind, gains in found.items():
        assert gains.shape == seen.values.shape
        assert (gains[~seen.exists] == 0).all()
        assert gains[seen.exists].std() > 1e-3, kind
    # the same by hand for one kind of one neighbour
    everything = torch.cat(list(inputs.values()), 2)
    everything[:, :, -1] = combiner.network.neighbours.mean[-1]
    own = combiner.network(everything, of_rows(seen, SCALE))[0]
    expected = (scores.c - own)[0, 3].item()
    assert found["continuation"][0, 3].item() == pytest.approx(expected, rel=DOUBLE, abs=DOUBLE)


@pytest.mark.parametrize("part", CONTEXT)
def test_a_part_that_is_left_out_says_nothing(part: str) -> None:
    """It is not asked for, and the other parts are."""
    combiner = Evidence(8, SCALE, without=[part])
    assert combiner.needs.context == CONTEXT.keys() - {part}
    seen, _ = world(8)
    assert not seen.take(slice(None), combiner.needs).columns().keys() & set(CONTEXT[part])
    with_it = prepared(8)
    other = replace(seen, **{name: torch.zeros_like(seen.columns()[name]) for name in CONTEXT[part]})
    assert not torch.equal(with_it.combine(seen).c, with_it.combine(other).c)


def test_inputs_are_measured_where_there_are_neighbours() -> None:
    combiner = prepared(8)
    seen, _ = world(8)
    networks = combiner.network
    assert networks.neighbours.mean[0].item() == pytest.approx(float(seen.distances[seen.exists].mean()) / SCALE)
    found = seen.exists[:, 0]
    assert networks.rows.deviation[0].item() == pytest.approx(float(seen.log_p_top[found, 0].std(correction=0)))
    constant = replace(seen, continued=torch.zeros_like(seen.exists))
    combiner.prepare(constant)
    assert networks.neighbours.deviation[-1] == 1, "what never varies is not blown up"


def test_it_is_saved_with_what_was_measured(tmp_path: Path) -> None:
    combiner = prepared(8, without=["source"], hidden=7)
    combiner.network.float()
    combiner.save(tmp_path)
    options = combiner.options()
    loaded = Evidence.load(tmp_path, {"options": options, "record": {}})
    seen = world(8, torch.float32)[0].take(slice(None), combiner.needs)
    assert torch.equal(loaded.combine(seen).log_odds, combiner.combine(seen).log_odds)
    assert loaded.signature == combiner.signature
    assert "without:['source']" in loaded.signature


@pytest.mark.parametrize("options", [{"without": ["dc"]}, {"hidden": 0}])
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(MethodError):
        Evidence(8, SCALE, **options)
