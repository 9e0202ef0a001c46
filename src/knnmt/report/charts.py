"""A line chart as a self-contained SVG: two axes, series, a legend, and a label for every point."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_LEFT, _TOP, _WIDTH, _HEIGHT = 48, 36, 400, 240  # of the plot area, in a picture of 640 × 330
_COLOURS = (  # for light and for dark pages
    ("#1768ac", "#5fb0f0"),
    ("#d1661a", "#f59a56"),
    ("#3b7d2f", "#8fce7f"),
    ("#8a3ea8", "#cf97e6"),
)
_STYLE = f"""
text {{ font: 13px system-ui, sans-serif; fill: #333 }}
.grid {{ stroke: #ddd }} .axis {{ stroke: #888 }}
{" ".join(f".colour-{number} {{ --line: {light} }}" for number, (light, _) in enumerate(_COLOURS))}
path {{ fill: none; stroke: var(--line); stroke-width: 2.5 }} circle {{ fill: var(--line) }}
.dashed path {{ stroke-dasharray: 3 5 }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #ddd }} .grid {{ stroke: #444 }}
  {" ".join(f".colour-{number} {{ --line: {dark} }}" for number, (_, dark) in enumerate(_COLOURS))}
}}
"""


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, divided into `steps` equal intervals, with a number at each boundary."""

    title: str
    low: float = 0.0
    high: float = 1.0
    steps: int = 5
    number_format: str = ".1f"

    def share(self, value: float) -> float:
        """The position of a value on the axis: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """The position of each number, as a share, and the number."""
        shares = [step / self.steps for step in range(self.steps + 1)]
        return [(share, format(self.low + share * (self.high - self.low), self.number_format)) for share in shares]


@dataclass(frozen=True)
class Point:
    """`label` is shown while the mouse is on the point."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Series:
    """A line through points, in the order given; series of one `colour` (0 to 3) belong together."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False


def line_chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> Markup:
    """The chart as an SVG element, which can also be a separate file.

    Example:
        line_chart("BLEU by K", Axis("K", 0, 64, 4, ".0f"), Axis("BLEU", 0, 50), [Series("robust", points)])
    """
    shapes = [_grid(x, y), *(_line(each, row, x, y) for row, each in enumerate(series))]
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 330" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(shapes)}</svg>\n"
    )


def _grid(x: Axis, y: Axis) -> str:
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT
    shapes = []
    for share, number in y.ticks():
        height = bottom - share * _HEIGHT
        shapes.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{height:.1f}" y2="{height:.1f}"/>')
        shapes.append(f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{number}</text>')
    for share, number in x.ticks():
        shapes.append(f'<text x="{_LEFT + share * _WIDTH:.1f}" y="{bottom + 20}" text-anchor="middle">{number}</text>')
    shapes.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = _LEFT + _WIDTH / 2
    shapes.append(f'<text x="{middle}" y="{bottom + 44}" text-anchor="middle">{escape(x.title)}</text>')
    shapes.append(f'<text x="14" y="{_TOP - 20}">{escape(y.title)}</text>')
    return "".join(shapes)


def _line(series: Series, row: int, x: Axis, y: Axis) -> str:
    """The line with its points, and its entry in this row of the legend."""
    positions = [(_LEFT + x.share(p.x) * _WIDTH, _TOP + (1 - y.share(p.y)) * _HEIGHT) for p in series.points]
    path = " L ".join(f"{across:.1f} {down:.1f}" for across, down in positions)
    dots = "".join(
        f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4"><title>{escape(point.label)}</title></circle>'
        for (across, down), point in zip(positions, series.points, strict=True)
    )
    across, down = _LEFT + _WIDTH + 20, _TOP + 20 + 26 * row
    legend = f'<path d="M {across} {down} h 30"/><text x="{across + 38}" y="{down + 4}">{escape(series.name)}</text>'
    kind = f"colour-{series.colour}{' dashed' if series.dashed else ''}"
    return f'<g class="{kind}">' + (f'<path d="M {path}"/>' if path else "") + f"{dots}{legend}</g>"
