import math

import pytest

from knnmt.report import Axis, Places


def numbers(axis: Axis) -> list[str]:
    return [number for _, number in axis.ticks()]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([38.2, 38.9, 41.3], ["38", "39", "40", "41", "42"]),
        ([0, 0.83], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([-3, 12], ["−5", "0", "5", "10", "15"]),
        ([20, 30], ["20", "22", "24", "26", "28", "30"]),
        ([10200, 19000], ["10,000", "12,000", "14,000", "16,000", "18,000", "20,000"]),
        ([0.1234, 0.1261], ["0.123", "0.124", "0.125", "0.126", "0.127"]),
        ([1, 1], ["0.90", "0.95", "1.00", "1.05", "1.10"]),
        ([0.0], ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        ([], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([math.nan, 20, math.inf, 30], ["20", "22", "24", "26", "28", "30"]),
    ],
)
def test_an_axis_covers_values_with_round_numbers(values: list[float], expected: list[str]) -> None:
    assert numbers(Axis.covering("BLEU", values)) == expected


@pytest.mark.parametrize("most", [1, 2, 5, 6, 10])
def test_all_values_are_on_the_axis_and_use_most_of_it(most: int) -> None:
    for low in (-1e6, -7.77, 0.0, 0.0099, 3.0, 99.5):
        for span in (0.0123, 0.99, 1.0, 7.3, 99.0, 12345.0):
            axis = Axis.covering("BLEU", [low, low + span], most_steps=most)
            assert -1e-6 <= axis.share(low) < axis.share(low + span) <= 1 + 1e-6
            assert 1 <= axis.steps <= max(most, 2), "around 0, one step may not be enough"
            assert len(set(numbers(axis))) == axis.steps + 1, "numbers are different from each other"


def test_a_format_of_ones_own() -> None:
    assert numbers(Axis.covering("share", [0, 1], number_format=".0%", most_steps=2)) == ["0%", "50%", "100%"]


def test_places_are_evenly_spaced_or_by_value() -> None:
    values = [1, 2, 4, 16]
    even, linear, log = (Places("K", values, scale=scale) for scale in ("even", "linear", "log"))
    expected = [(even, [0, 1 / 3, 2 / 3, 1]), (linear, [0, 1 / 15, 3 / 15, 1]), (log, [0, 1 / 4, 2 / 4, 1])]
    for axis, shares in expected:
        first, last = axis.share(1), axis.share(16)
        assert 0 < first < last < 1, "no point is on the edge"
        assert [(axis.share(value) - first) / (last - first) for value in values] == pytest.approx(shares)
    assert even.share(3) == pytest.approx((even.share(2) + even.share(4)) / 2)


def test_places_have_names() -> None:
    assert [name for _, name in Places("K", [4, 8.5, 1024]).ticks()] == ["4", "8.5", "1,024"]
    assert [name for _, name in Places("domain", range(2), ["IT", "law"]).ticks()] == ["IT", "law"]
    assert Places("K", [4]).ticks() == [(0.5, "4")]


def test_places_that_are_wrong_are_refused() -> None:
    with pytest.raises(ValueError, match="have to ascend"):
        Places("K", [8, 4])
    with pytest.raises(ValueError, match="1 names for 2 values"):
        Places("K", [4, 8], ["4"])
