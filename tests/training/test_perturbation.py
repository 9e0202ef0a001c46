"""Perturbation against loops over pairs, and the closed form against noise on real vectors."""

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from worlds import observed

from knnmt.combiner import Needs, Observation
from knnmt.training import ClosedForm, Perturbation, Perturber
from knnmt.training.perturbation import Batch, perturb

ROWS, K, TOP, POSITIONS = 60, 5, 2, 100
CONTEXT_COLUMNS = ("matching_past", "same_beginning", "source_similarity", "continued")


def world() -> Batch:
    """Rows scattered among more positions; few tokens, so that gold is found about half of the time."""
    rng = np.random.default_rng(7)
    distances = np.sort(rng.random((ROWS, K)) * 30, axis=1)
    values = rng.integers(1, 9, (ROWS, K))
    tokens = rng.integers(1, 9, ROWS)
    confidence = -rng.random((ROWS, K))
    past = rng.integers(1, 16, (ROWS, K))
    for row in range(0, ROWS, 6):  # some neighbours are missing, down to all
        there = row % 5
        distances[row, there:], values[row, there:], confidence[row, there:] = np.inf, 0, 0
        past[row, there:] = 0
    tokens[::12] = 0  # what fills up a row, and a token all the same
    return Batch(
        rows=torch.from_numpy(rng.permutation(POSITIONS)[:ROWS]),
        seen=observed(
            torch.from_numpy(distances).float(),
            torch.from_numpy(values),
            torch.from_numpy(confidence).float(),
            torch.from_numpy(-rng.random((ROWS, K)) - 2).float(),
            torch.from_numpy(-rng.random((ROWS, TOP))).float(),
            matching_past=torch.from_numpy(past),
            same_beginning=torch.from_numpy(past % 3 == 1),
            source_similarity=torch.from_numpy(past / 16).float(),
            continued=torch.from_numpy(past % 2 == 1),
        ),
        tokens=torch.from_numpy(tokens),
        log_p=torch.from_numpy(-rng.random(ROWS) - 4).float(),
        log_p_sum=torch.from_numpy(-rng.random(ROWS)).float(),
    )


class Script:
    """Noise by table: each position's perturbed distances are known beforehand, and in no order."""

    def __init__(self, k: int = K, positions: int = POSITIONS) -> None:
        rng = np.random.default_rng(11)
        self.distances = torch.from_numpy(rng.random((positions, k)) * 30).float()
        self.confidence = torch.from_numpy(-rng.random((positions, k)) - 10).float()
        self.of_query = torch.from_numpy(rng.random(positions) * 30).float()
        self.confidence_of_query = torch.from_numpy(-rng.random(positions) - 20).float()

    def on_keys(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        rows, missing = batch.rows[at], ~batch.seen.exists[at]
        return (
            self.distances[rows].masked_fill(missing, torch.inf),
            self.confidence[rows].masked_fill(missing, 0.0),
        )

    def on_queries(self, batch: Batch, at: Tensor) -> tuple[Tensor, Tensor]:
        return self.of_query[batch.rows[at]], self.confidence_of_query[batch.rows[at]]


class Retrieved(NamedTuple):
    distance: float
    value: int
    log_confidence: float
    log_p: float
    matching_past: int
    same_beginning: bool
    source_similarity: float
    continued: bool


def retrieved(seen: Observation, row: int) -> list[Retrieved]:
    names = ("distances", "values", "log_confidence", "log_p_values", *CONTEXT_COLUMNS)
    columns = [getattr(seen, name) for name in names]
    return [Retrieved(*pair) for pair in zip(*(column[row].tolist() for column in columns), strict=True)]


def naive(batch: Batch, alpha: float, how: Perturbation, noise: Script, seed: int) -> Iterator[list[Retrieved]]:
    rng = np.random.default_rng(seed)
    first, second = rng.random(ROWS), rng.random(ROWS)
    for row in range(ROWS):
        pairs, gold, position = retrieved(batch.seen, row), int(batch.tokens[row]), int(batch.rows[row])
        if how.vector_perturbation and first[row] < alpha:
            for k, pair in enumerate(pairs):
                if pair.distance < math.inf:
                    d, p = noise.distances[position, k].item(), noise.confidence[position, k].item()
                    pairs[k] = pair._replace(distance=d, log_confidence=p)
        not_found = all(pair.value != gold for pair in pairs if pair.distance < math.inf)
        if how.pseudo_pairs and second[row] < alpha and not_found:
            pairs.remove(max(pairs))
            d, p = noise.of_query[position].item(), noise.confidence_of_query[position].item()
            pairs.append(Retrieved(d, gold, p, batch.log_p[row].item(), 0, False, 0.0, False))
        yield sorted(pairs)


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("pseudo", [True, False])
def test_pair_by_pair(alpha: float, keys: bool, pseudo: bool) -> None:
    """All columns go with their pair, the order is by distance again, and what was found is not touched."""
    batch, untouched, noise = world(), world(), Script()
    how = Perturbation(vector_perturbation=keys, pseudo_pairs=pseudo)
    result = perturb(batch, alpha, Perturber(how, noise), np.random.default_rng(3))
    for row, expected in enumerate(naive(world(), alpha, how, noise, 3)):
        found = retrieved(result, row)
        there = [pair for pair in expected if pair.distance < math.inf]
        assert found[: len(there)] == there
        assert all(pair.distance == math.inf and pair.value == 0 for pair in found[len(there) :])
    assert torch.equal(result.log_p_top, batch.seen.log_p_top)
    for field in fields(Observation):
        assert torch.equal(getattr(batch.seen, field.name), getattr(untouched.seen, field.name))
    assert torch.equal(result.distances, batch.seen.distances) == (not keys and not pseudo)


def test_without_context_there_is_none_to_perturb() -> None:
    batch = world()
    bare = replace(batch, seen=batch.seen.take(torch.arange(ROWS), Needs(K, TOP)))
    result = perturb(bare, 1.0, Perturber(Perturbation(), Script()), np.random.default_rng(3))
    assert not set(CONTEXT_COLUMNS) & result.columns().keys()
    expected = perturb(batch, 1.0, Perturber(Perturbation(), Script()), np.random.default_rng(3))
    assert torch.equal(result.distances, expected.distances)


def test_at_alpha_zero_nothing_is_perturbed() -> None:
    batch = world()
    result = perturb(batch, 0.0, Perturber(Perturbation(), Script()), np.random.default_rng(3))
    for field in fields(Observation):
        assert torch.equal(getattr(result, field.name), getattr(batch.seen, field.name))


def test_at_alpha_one_everything_is() -> None:
    """Noise on every key, and the gold token among the neighbours everywhere."""
    batch = world()
    result = perturb(batch, 1.0, Perturber(Perturbation(), Script()), np.random.default_rng(3))
    assert ((result.values == batch.tokens[:, None]) & result.exists).any(1).all()
    assert (result.log_confidence[result.exists] <= -10).all()
    before = ((batch.seen.values == batch.tokens[:, None]) & batch.seen.exists).any(1)
    assert 0.2 < before.float().mean() < 0.8
    pseudo = result.log_confidence < -20
    assert torch.equal(pseudo.sum(1), (~before).long()), "one pseudo pair, and only where gold was not found"
    torch.testing.assert_close(result.log_p_values[pseudo], batch.log_p[~before])
    assert torch.equal(result.values[pseudo], batch.tokens[~before])


def test_the_pseudo_pair_comes_in_for_the_farthest_after_the_noise() -> None:
    """The farthest key may be another once there is noise on all of them."""
    noise = Script(3, 1)
    noise.distances[0] = torch.tensor([9.0, 4.0, 5.0])
    noise.of_query[0] = 0.5
    one = observed(
        torch.tensor([[1.0, 2.0, 3.0]]),
        torch.tensor([[10, 20, 30]]),
        torch.zeros(1, 3),
        torch.zeros(1, 3),
        torch.zeros(1, 0),
    )
    batch = Batch(torch.tensor([0]), one, torch.tensor([40]), torch.tensor([-7.0]), torch.tensor([0.0]))
    both = perturb(batch, 1.0, Perturber(Perturbation(), noise), np.random.default_rng(0))
    assert (both.values.tolist(), both.distances.tolist()) == ([[40, 20, 30]], [[0.5, 4.0, 5.0]])
    assert both.log_p_values.tolist() == [[-7.0, 0.0, 0.0]]
    quiet = perturb(batch, 1.0, Perturber(Perturbation(vector_perturbation=False), noise), np.random.default_rng(0))
    assert (quiet.values.tolist(), quiet.distances.tolist()) == ([[40, 10, 20]], [[0.5, 1.0, 2.0]])


def test_the_two_draws_are_independent() -> None:
    """Each has probability α, and together α²; the same with one of them switched off."""
    rows, alpha = 20_000, 0.3
    seen = observed(
        torch.tensor([[1.0, 50.0]]).repeat(rows, 1),
        torch.tensor([[3, 4]]).repeat(rows, 1),
        torch.zeros(rows, 2),
        torch.zeros(rows, 2),
        torch.zeros(rows, 0),
    )
    tokens, zeros = torch.full((rows,), 5), torch.zeros(rows)
    batch = Batch(torch.arange(rows), seen, tokens, zeros, zeros)
    for how in (Perturbation(), Perturbation(vector_perturbation=False), Perturbation(pseudo_pairs=False)):
        result = perturb(batch, alpha, Perturber(how, Script(2, rows)), np.random.default_rng(1))
        pseudo = (result.values == 5).any(1)
        noisy = ((result.log_confidence <= -10) & (result.values != 5)).any(1)  # of the key that is left at least
        share, both = alpha * how.vector_perturbation, alpha * alpha
        assert noisy.float().mean().item() == pytest.approx(share, abs=0.015)
        assert pseudo.float().mean().item() == pytest.approx(alpha * how.pseudo_pairs, abs=0.015)
        expected = both if how == Perturbation() else 0
        assert (noisy & pseudo).float().mean().item() == pytest.approx(expected, abs=0.01)


def kolmogorov_smirnov(one: np.ndarray, other: np.ndarray) -> float:
    """The largest gap between the two samples' distribution functions."""
    one, other = np.sort(one), np.sort(other)
    places = np.concatenate([one, other])
    below = (np.searchsorted(sample, places, side="right") / len(sample) for sample in (one, other))
    return float(np.abs(next(below) - next(below)).max())


SAMPLES = 20_000
GAP = 1.95 * math.sqrt(2 / SAMPLES)  # a larger one has a probability of 0.001 if the distributions are the same


def alone(distances: Tensor) -> Batch:
    """Distances and nothing else of interest."""
    rows, like = len(distances), torch.zeros_like(distances)
    seen = observed(distances, like.long(), like - 3, like, like[:, :0])
    return Batch(torch.arange(rows), seen, torch.zeros(rows).long(), torch.arange(rows) * -1.0, torch.zeros(rows))


@pytest.mark.parametrize("distance", [0.0, 1.0, 9.0])
@pytest.mark.parametrize("dim", [1, 2, 7, 64])
def test_the_closed_form_on_keys_is_that_of_noisy_vectors(dim: int, distance: float) -> None:
    """‖q − (h + ε)‖² with σ large beside the distance, so that every term of it counts."""
    sigma, rng = 0.7, np.random.default_rng(dim)
    direction = rng.normal(size=dim)
    difference = direction / np.linalg.norm(direction) * math.sqrt(distance)
    direct = ((difference - rng.normal(0, sigma, (SAMPLES, dim))) ** 2).sum(1)
    batch = alone(torch.full((SAMPLES // 4, 4), distance))
    noise = ClosedForm(sigma, dim, np.random.default_rng(dim + 1))
    perturbed, log_p = noise.on_keys(batch, torch.arange(SAMPLES // 4))
    found = perturbed.double().numpy().flatten()
    assert (found >= 0).all()
    assert kolmogorov_smirnov(found, direct) < GAP
    mean = distance + sigma**2 * dim
    variance = 4 * distance * sigma**2 + 2 * sigma**4 * dim
    assert found.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / SAMPLES))
    assert found.var() == pytest.approx(variance, rel=0.15 if dim == 1 else 0.08)
    correlation = np.corrcoef(perturbed.double().numpy().T)
    assert np.abs(correlation - np.eye(4)).max() < 0.06, "each key has noise of its own"
    assert torch.equal(log_p, batch.seen.log_confidence)


@pytest.mark.parametrize("dim", [1, 2, 7, 64])
def test_the_closed_form_on_queries_is_that_of_noisy_vectors(dim: int) -> None:
    sigma, rng = 0.7, np.random.default_rng(dim)
    direct = (rng.normal(0, sigma, (SAMPLES, dim)) ** 2).sum(1)
    batch = alone(torch.full((SAMPLES, 1), 5.0))
    noise = ClosedForm(sigma, dim, np.random.default_rng(dim + 1))
    distances, log_p = noise.on_queries(batch, torch.arange(SAMPLES))
    found = distances.double().numpy()
    assert kolmogorov_smirnov(found, direct) < GAP
    assert found.mean() == pytest.approx(sigma**2 * dim, abs=5 * sigma**2 * math.sqrt(2 * dim / SAMPLES))
    assert found.var() == pytest.approx(2 * sigma**4 * dim, rel=0.15 if dim == 1 else 0.08)
    assert torch.equal(log_p, batch.log_p)


def test_the_gap_would_show_a_wrong_form() -> None:
    """One degree of freedom too many, or noise that forgets its direction, is seen."""
    rng = np.random.default_rng(0)
    direct = ((np.array([3.0, 0]) - rng.normal(0, 0.7, (SAMPLES, 2))) ** 2).sum(1)
    one_too_many = (3 - rng.normal(0, 0.7, SAMPLES)) ** 2 + 0.49 * rng.chisquare(2, SAMPLES)
    undirected = 9 + 0.49 * rng.chisquare(2, SAMPLES)
    assert kolmogorov_smirnov(direct, one_too_many) > 2 * GAP
    assert kolmogorov_smirnov(direct, undirected) > 2 * GAP


def test_only_the_rows_asked_for_and_no_noise_on_what_is_missing() -> None:
    distances = torch.tensor([[1.0, 2.0], [3.0, torch.inf], [torch.inf, torch.inf], [4.0, 5.0]])
    batch = alone(distances)
    at = torch.tensor([1, 2])
    found, log_p = ClosedForm(0.5, 8, np.random.default_rng(0)).on_keys(batch, at)
    assert torch.isinf(found).tolist() == [[False, True], [True, True]]
    assert found.shape == log_p.shape == (2, 2)
    still, _ = ClosedForm(0.0, 8, np.random.default_rng(0)).on_keys(batch, torch.arange(4))
    torch.testing.assert_close(still, distances)
    pseudo, log_p = ClosedForm(0.5, 8, np.random.default_rng(0)).on_queries(batch, at)
    assert pseudo.shape == (2,)
    assert log_p.tolist() == [-1.0, -2.0]
    nothing, _ = ClosedForm(0.0, 8, np.random.default_rng(0)).on_queries(batch, at)
    assert nothing.tolist() == [0, 0]
