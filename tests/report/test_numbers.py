import pytest

from knnmt.report.numbers import shown


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (1.005, ".1f", "1.0"),
        (-0.36, "+.2f", "−0.36"),
        (0.36, "+.2f", "+0.36"),
        (-0.001, ".2f", "0.00"),
        (-0.001, "+.2f", "+0.00"),
        (-0.001, ".3f", "−0.001"),
        (1234567, ",d", "1,234,567"),
        (0, ",d", "0"),
    ],
)
def test_a_number_has_a_real_minus_and_zero_none(value: float, spec: str, text: str) -> None:
    assert shown(value, spec) == text
