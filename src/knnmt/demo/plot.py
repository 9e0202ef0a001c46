"""Plot λ against the model's confidence, as in the analysis of the paper."""

from typing import Any

from markupsafe import Markup

from knnmt.report import Axis, Point, Series, line_chart


def lambda_plot(evaluation: dict[str, Any]) -> Markup:
    """Mean λ of robust and adaptive if the right token is among the neighbours, and if it is not."""
    curves = [(method, retrieved) for retrieved in (True, False) for method in ("robust", "adaptive")]
    return line_chart(
        "Mean λ by the model's confidence in the right token",
        Axis("the model’s own p of the right token"),
        Axis("λ, the memory’s share"),
        [_curve(evaluation["systems"][method]["lambda_by_confidence"], method, found) for method, found in curves],
    )


def _curve(intervals: list[dict[str, Any]], method: str, retrieved: bool) -> Series:
    """One point in the middle of each confidence interval that has tokens."""
    name = f"{method}, {'retrieved' if retrieved else 'missed'}"
    points = [
        Point(
            sum(interval["confidence"]) / 2,
            interval["mean_lambda"],
            f"{name}: λ {interval['mean_lambda']:.2f} over {interval['positions']:,} tokens",
        )
        for interval in intervals
        if interval["retrieved"] == retrieved and interval["positions"]
    ]
    return Series(name, points, colour=0 if retrieved else 1, dashed=method == "adaptive")
