"""The grid against a naive likelihood for every place of it."""

import numpy as np
import pytest
import torch
from tolerances import NLL, SHARE
from worlds import observed

from knnmt.methods.vanilla import Point, best_few, likelihood_grid
from knnmt.training import Features


def features(seed: int = 0, positions: int = 50, k: int = 8) -> Features:
    generator = torch.Generator().manual_seed(seed)
    distances = (torch.rand(positions, k, generator=generator) * 500).sort(1).values
    values = torch.randint(0, 6, (positions, k), generator=generator)
    log_p = -torch.rand(positions, generator=generator) * 4
    empty = torch.zeros(positions, k)
    seen = observed(distances, values, empty, empty, torch.zeros(positions, 0))
    tokens = torch.randint(0, 6, (positions,), generator=generator)
    return Features(seen, tokens, log_p, 6 * log_p, lengths=np.array([positions]), vocabulary=6, dim=4)


def naive(world: Features, point: Point) -> float:
    total = 0.0
    for row in range(len(world)):
        distances = world.observation.distances[row, : point.k].double().numpy()
        weights = np.exp(-distances / point.temperature)
        weights /= weights.sum()
        gold = world.observation.values[row, : point.k].numpy() == world.tokens[row].item()
        p = point.lam * weights[gold].sum() + (1 - point.lam) * np.exp(world.log_p[row].item())
        total -= np.log(p)
    return total / len(world)


def test_every_place_of_the_grid_agrees_with_loops() -> None:
    world = features()
    grid = likelihood_grid(world, [2, 8], lambdas=[0.2, 0.7], temperatures=[50.0, 300.0])
    assert len(grid) == 8
    for point in grid:
        assert point.nll == pytest.approx(naive(world, point), abs=NLL)
        nll, lam = world.judge(point.combiner())
        assert nll == pytest.approx(point.nll, abs=NLL)
        assert lam == pytest.approx(point.lam, abs=SHARE)
    assert [point.nll for point in grid] == sorted(point.nll for point in grid)


def test_temperatures_follow_the_models_scale() -> None:
    world = features()
    grid = likelihood_grid(world, [4])
    temperatures = sorted({point.temperature for point in grid})
    assert temperatures[0] < world.median_nearest < temperatures[-1]


def test_the_best_few_have_different_lambdas() -> None:
    grid = likelihood_grid(features(), [2, 4, 8])
    few = best_few(grid, 3)
    assert few[0] == grid[0]
    assert len({point.lam for point in few}) == 3
    for point in few:
        assert point.nll == min(other.nll for other in grid if other.lam == point.lam)


def test_identical_neighbours_at_distance_zero() -> None:
    world = features()
    world.observation.distances.zero_()
    assert all(np.isfinite(point.nll) for point in likelihood_grid(world, [8]))
