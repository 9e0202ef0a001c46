"""λ against the model's confidence as an SVG that needs nothing else: the figure of the paper's analysis."""

from typing import Any

_LEFT, _TOP, _WIDTH, _HEIGHT = 48, 36, 400, 240  # of the plane, in a picture of 640 × 330
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #333 }
.grid { stroke: #ddd } .axis { stroke: #888 }
.retrieved { --line: #1768ac } .missed { --line: #d1661a }
path { fill: none; stroke: var(--line); stroke-width: 2.5 } circle { fill: var(--line) }
.adaptive path { stroke-dasharray: 3 5 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .grid { stroke: #444 } .retrieved { --line: #5fb0f0 } .missed { --line: #f59a56 }
}
"""


def lambda_plot(evaluation: dict[str, Any], methods: tuple[str, ...] = ("robust", "adaptive")) -> str:
    """Mean λ of each method where the right token is among the neighbours, and where it is not."""
    shapes = [_grid()]
    for place, (method, retrieved) in enumerate((m, r) for r in (True, False) for m in methods):
        points = [
            point
            for point in evaluation["systems"][method]["lambda_by_confidence"]
            if point["retrieved"] == retrieved and point["positions"]
        ]
        shapes.append(_curve(points, method, "retrieved" if retrieved else "missed", place))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 330" role="img">'
        "<title>Mean λ by the model's confidence in the right token</title>"
        f"<style>{_STYLE}</style>{''.join(shapes)}</svg>\n"
    )


def _grid() -> str:
    lines = []
    for fifth in range(6):
        share = fifth / 5
        x, y = _place(share, share)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.1f}</text>')
        lines.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{share:.1f}</text>')
    bottom = _TOP + _HEIGHT
    lines.append(f'<line class="axis" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{bottom}" y2="{bottom}"/>')
    lines.append(f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 44}" text-anchor="middle">')
    lines.append("the model’s own p of the right token</text>")
    lines.append(f'<text x="14" y="{_TOP - 20}">λ, the memory’s share</text>')
    return "".join(lines)


def _curve(points: list[dict[str, Any]], method: str, kind: str, place: int) -> str:
    """A line through the intervals' middles, and its entry in the legend."""
    places = [_place(sum(point["confidence"]) / 2, point["mean_lambda"]) for point in points]
    path = " L ".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{method}, {kind}: λ {point["mean_lambda"]:.2f} '
        f"over {point['positions']:,} tokens</title></circle>"
        for (x, y), point in zip(places, points, strict=True)
    )
    y = _TOP + 20 + 26 * place
    x = _LEFT + _WIDTH + 20
    legend = f'<path d="M {x} {y} h 30"/><text x="{x + 38}" y="{y + 4}">{method}, {kind}</text>'
    return f'<g class="{kind} {method}">' + (f'<path d="M {path}"/>' if path else "") + f"{dots}{legend}</g>"


def _place(confidence: float, share: float) -> tuple[float, float]:
    return _LEFT + confidence * _WIDTH, _TOP + (1 - share) * _HEIGHT
