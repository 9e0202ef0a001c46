"""What the networks are told, counted and divided in loops."""

import math

import numpy as np
import torch
from worlds import observed

from knnmt.combiner import LOG_ZERO, Observation, first_of_its_value
from knnmt.combiner.inputs import distinct_counts, log_p_inputs, retrieval_inputs, scaled_distances

ROWS, K, TOP = 40, 8, 3


def world(*, missing: bool = True) -> Observation:
    """Few tokens, so that most rows repeat some; every row has 0 to K neighbours unless none is missing."""
    rng = np.random.default_rng(5)
    distances = np.sort(rng.random((ROWS, K)) * 70, axis=1)
    values = rng.integers(0, 5, (ROWS, K))
    confidence = -rng.random((ROWS, K)) * 9
    if missing:
        gone = np.arange(K) >= (np.arange(ROWS) % (K + 1))[:, None]
        distances[gone], values[gone], confidence[gone] = np.inf, 0, 0
    return observed(
        *map(torch.from_numpy, (distances, values, confidence, -rng.random((ROWS, K)) * 9, -rng.random((ROWS, TOP))))
    )


def test_first_of_its_value() -> None:
    values = world(missing=False).values
    for row, found in zip(values.tolist(), first_of_its_value(values).tolist(), strict=True):
        assert found == [value not in row[:k] for k, value in enumerate(row)]


def test_the_counts_are_of_distinct_values_among_the_nearest() -> None:
    """A missing neighbour's value 0 is not counted, though 0 is a token as well."""
    seen = world()
    counts = distinct_counts(seen)
    for row in range(ROWS):
        for k in range(K):
            nearest = zip(seen.values[row, : k + 1].tolist(), seen.distances[row, : k + 1].tolist(), strict=True)
            assert counts[row, k].item() == len({value for value, distance in nearest if distance < math.inf})
    assert counts.dtype == seen.distances.dtype
    assert {1, 2, 3, 4} <= set(counts.flatten().tolist()), "rows repeat tokens and differ in how often"


def test_distances_are_divided_once_and_missing_ones_are_as_far_as_the_farthest() -> None:
    seen = world()
    scaled = scaled_distances(seen, 4.0)
    for row in range(ROWS):
        there = [distance for distance in seen.distances[row].tolist() if distance < math.inf]
        expected = there + [max(there, default=0.0)] * (K - len(there))
        np.testing.assert_allclose(scaled[row].numpy(), np.array(expected) / 4.0)
    inputs = retrieval_inputs(seen, 4.0)
    assert torch.equal(inputs[:, :K], scaled)
    assert torch.equal(inputs[:, K:], distinct_counts(seen))


def test_log_p_inputs_are_bounded_and_silent_where_nothing_was_found() -> None:
    seen = world()
    for name in ("log_p_top", "log_confidence", "log_p_values"):
        getattr(seen, name)[::2, 0] = LOG_ZERO
    given = (seen.log_p_top, seen.log_confidence, seen.log_p_values)
    for name, column, inputs in zip(("top", "confidence", "own"), given, log_p_inputs(seen), strict=True):
        expected = np.maximum(column.numpy(), -100.0)
        if name != "top":
            expected = np.where(np.isinf(seen.distances.numpy()), 0.0, expected)
        np.testing.assert_array_equal(inputs.numpy(), expected)
        assert inputs.min() == -100
