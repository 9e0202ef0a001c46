"""A line chart as a self-contained SVG: two axes, series, a legend, and a label for every point."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from knnmt.report.axes import Axis, Places

_LEFT, _TOP, _WIDTH, _HEIGHT = 48, 36, 400, 240  # of the plot area, in a picture of at least 640 × 330
_LETTER = 7.5  # the width of a letter, rounded up
_APART = 7  # of whiskers at the same place, so that each can be seen
_CAP = 4  # half the width of the end of a whisker
_COLOURS = (  # for light and for dark pages
    ("#1768ac", "#5fb0f0"),
    ("#d1661a", "#f59a56"),
    ("#3b7d2f", "#8fce7f"),
    ("#8a3ea8", "#cf97e6"),
    ("#b3261e", "#ff8a80"),
    ("#00796b", "#5fd3c4"),
    ("#8c6d00", "#e3c44b"),
    ("#5c5f66", "#b4b8c0"),
)
_STYLE = f"""
text {{ font: 13px system-ui, sans-serif; fill: #333 }}
.grid {{ stroke: #ddd }} .axis {{ stroke: #888 }}
{" ".join(f".colour-{number} {{ --line: {light} }}" for number, (light, _) in enumerate(_COLOURS))}
path {{ fill: none; stroke: var(--line); stroke-width: 2.5 }} circle {{ fill: var(--line) }}
.dashed path {{ stroke-dasharray: 3 5 }} path.whisker {{ stroke-width: 1.5; stroke-dasharray: none; opacity: .75 }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #ddd }} .grid {{ stroke: #444 }}
  {" ".join(f".colour-{number} {{ --line: {dark} }}" for number, (_, dark) in enumerate(_COLOURS))}
}}
"""


@dataclass(frozen=True)
class Point:
    """`label` is shown while the mouse is on the point; `low` and `high` are the ends of its whiskers, if any."""

    x: float
    y: float
    label: str
    low: float | None = None
    high: float | None = None

    @property
    def has_whiskers(self) -> bool:
        """Whether an interval or a deviation is drawn."""
        return self.low is not None or self.high is not None

    def heights(self) -> list[float]:
        """All that the y axis has to cover."""
        return [self.y, *(end for end in (self.low, self.high) if end is not None)]


@dataclass(frozen=True)
class Series:
    """A line through points, in the order given; series of one `colour` (0 to 7, then again) belong together."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False

    def heights(self) -> list[float]:
        """All that the y axis has to cover."""
        return [height for point in self.points for height in point.heights()]


def line_chart(title: str, x: Axis | Places, y: Axis | str, series: Sequence[Series]) -> Markup:
    """The chart as an SVG element, which can also be a separate file.

    Args:
        title: for those who cannot see it
        x: the axis below the chart
        y: the axis on the left; only a title gives one that covers all points and whiskers
        series: the lines, in the order of the legend

    Example:
        line_chart("BLEU by K", Places("K", [4, 8, 16], scale="log"), "BLEU", [Series("robust", points)])
    """
    if isinstance(y, str):
        y = Axis.covering(y, [height for each in series for height in each.heights()])
    frame = _Frame(x, y)
    shifts = _shifts(x, series)
    shapes = [_grid(frame), *(_line(each, row, shifts[row], frame) for row, each in enumerate(series))]
    width, height = _size(frame, series)
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(shapes)}</svg>\n"
    )


@dataclass(frozen=True)
class _Frame:
    """The plot area: from values to positions in the picture."""

    x: Axis | Places
    y: Axis

    @property
    def left(self) -> float:
        """More than usual for long numbers, such as 10,000."""
        return max(_LEFT, 10 + _LETTER * max(len(number) for _, number in self.y.ticks()))

    @property
    def right(self) -> float:
        return self.left + _WIDTH

    def across(self, x: float) -> float:
        return self.left + self.x.share(x) * _WIDTH

    def down(self, y: float) -> float:
        return _TOP + (1 - self.y.share(y)) * _HEIGHT


def _size(frame: _Frame, series: Sequence[Series]) -> tuple[float, float]:
    """Of the picture: large enough for the legend."""
    longest = max((len(each.name) for each in series), default=0)
    return max(640, frame.right + 58 + _LETTER * longest), max(330, _TOP + 20 + 26 * len(series))


def _shifts(x: Axis | Places, series: Sequence[Series]) -> list[float]:
    """How far each series is moved to the side, so that whiskers at the same named place do not cover each other."""
    rows = [row for row, each in enumerate(series) if any(point.has_whiskers for point in each.points)]
    if len(rows) < 2 or isinstance(x, Axis):
        return [0.0] * len(series)
    places = {row: (place - (len(rows) - 1) / 2) * _APART for place, row in enumerate(rows)}
    return [places.get(row, 0.0) for row in range(len(series))]


def _grid(frame: _Frame) -> str:
    left, right, bottom = frame.left, frame.right, _TOP + _HEIGHT
    shapes = []
    for share, number in frame.y.ticks():
        height = bottom - share * _HEIGHT
        shapes.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{height:.1f}" y2="{height:.1f}"/>')
        shapes.append(f'<text x="{left - 8}" y="{height + 4:.1f}" text-anchor="end">{number}</text>')
    for share, name in frame.x.ticks():
        across = left + share * _WIDTH
        shapes.append(f'<text x="{across:.1f}" y="{bottom + 20}" text-anchor="middle">{escape(name)}</text>')
    shapes.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = left + _WIDTH / 2
    shapes.append(f'<text x="{middle}" y="{bottom + 44}" text-anchor="middle">{escape(frame.x.title)}</text>')
    shapes.append(f'<text x="14" y="{_TOP - 20}">{escape(frame.y.title)}</text>')
    return "".join(shapes)


def _line(series: Series, row: int, shift: float, frame: _Frame) -> str:
    """The line with its points, and its entry in this row of the legend."""
    positions = [(frame.across(point.x) + shift, frame.down(point.y)) for point in series.points]
    path = " L ".join(f"{across:.1f} {down:.1f}" for across, down in positions)
    whiskers = "".join(
        _whisker(point, across, frame)
        for (across, _), point in zip(positions, series.points, strict=True)
        if point.has_whiskers
    )
    dots = "".join(
        f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4"><title>{escape(point.label)}</title></circle>'
        for (across, down), point in zip(positions, series.points, strict=True)
    )
    across, down = frame.right + 20, _TOP + 20 + 26 * row
    legend = f'<path d="M {across} {down} h 30"/><text x="{across + 38}" y="{down + 4}">{escape(series.name)}</text>'
    kind = f"colour-{series.colour % len(_COLOURS)}{' dashed' if series.dashed else ''}"
    return f'<g class="{kind}">' + (f'<path d="M {path}"/>' if path else "") + f"{whiskers}{dots}{legend}</g>"


def _whisker(point: Point, across: float, frame: _Frame) -> str:
    """A vertical line through the point, with a cap at each end that was given."""
    bottom, top = (frame.down(point.y if end is None else end) for end in (point.low, point.high))
    caps = [
        f"M {across - _CAP:.1f} {height:.1f} h {2 * _CAP}"
        for height, end in ((bottom, point.low), (top, point.high))
        if end is not None
    ]
    return f'<path class="whisker" d="{" ".join([f"M {across:.1f} {bottom:.1f} V {top:.1f}", *caps])}"/>'
