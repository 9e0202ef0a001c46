"""λ by confidence against loops over positions."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from tolerances import SHARE
from worlds import observed

from knnmt.evaluation import lambda_curve
from knnmt.methods import Adaptive, Vanilla
from knnmt.training import Features, features

K, POSITIONS = 4, 200


@pytest.fixture
def world() -> Features:
    generator = torch.Generator().manual_seed(3)
    distances = (torch.rand(POSITIONS, K, generator=generator) * 50).sort(1).values
    distances[::9, 1:] = torch.inf
    values = torch.randint(0, 6, (POSITIONS, K), generator=generator)
    values[::9, 1:] = 0
    log_p = torch.rand(POSITIONS, generator=generator).log()
    log_p[:3] = torch.tensor([1.0, 0.25, 0.0]).log().clamp_min(-1e4)
    blank = torch.zeros(POSITIONS, K)
    seen = observed(distances, values, blank, blank, torch.zeros(POSITIONS, 0))
    tokens = torch.randint(0, 6, (POSITIONS,), generator=generator)
    return Features(seen, tokens, log_p, 6 * log_p, lengths=np.array([POSITIONS]), vocabulary=6, dim=4)


def test_the_curve_agrees_with_loops(world: Features, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_ROWS", 64)
    combiner = Adaptive(2, 10.0, 5.0, seed=1)
    lam = world.lambdas(combiner).tolist()
    groups: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for row in range(POSITIONS):
        found = any(
            world.observation.values[row, k] == world.tokens[row] and world.observation.distances[row, k] < torch.inf
            for k in range(2)
        )
        p = float(np.exp(world.log_p[row].item()))
        groups[min(int(p * 5), 4), found].append(lam[row])
    curve = lambda_curve(world, combiner)
    assert [(point.retrieved, point.low, point.high) for point in curve] == [
        (retrieved, i / 5, (i + 1) / 5) for retrieved in (True, False) for i in range(5)
    ]
    assert sum(point.positions for point in curve) == POSITIONS
    for point in curve:
        expected = groups[round(point.low * 5), point.retrieved]
        assert point.positions == len(expected) > 3
        assert point.mean_lambda == pytest.approx(np.mean(expected), abs=SHARE)


def test_an_interval_without_positions_has_no_mean(world: Features) -> None:
    world.log_p[:] = np.log(0.5)
    curve = lambda_curve(world, Vanilla(K, 0.3, 5.0))
    assert [point.mean_lambda for point in curve if point.retrieved][:2] == [None, None]
    middle = [point for point in curve if point.low == 0.4]
    assert [point.mean_lambda for point in middle] == pytest.approx([0.3, 0.3], abs=SHARE)
    assert sum(point.positions for point in middle) == POSITIONS
