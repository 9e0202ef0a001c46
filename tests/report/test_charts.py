"""The chart, read back."""

from lxml import etree

from knnmt.report import Axis, Places, Point, Series, line_chart

SVG = {"s": "http://www.w3.org/2000/svg"}
EVIL = "<script>&'"


def test_points_are_where_the_axes_say() -> None:
    x, y = Axis("K", 10, 30, 4, ".0f"), Axis("BLEU", -1, 1, 2)
    points = [Point(10, -1, "low"), Point(20, 0, "middle"), Point(30, 0.5, "high")]
    chart = etree.fromstring(line_chart("BLEU by K", x, y, [Series("robust", points)]))
    axis = chart.find("s:line[@class='axis']", SVG)
    heights = [float(line.get("y1")) for line in chart.iterfind("s:line[@class='grid']", SVG)]
    left, right, bottom = (float(axis.get(name)) for name in ("x1", "x2", "y1"))
    assert heights == [bottom, (bottom + heights[-1]) / 2, heights[-1]]
    dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in chart.iterfind("s:g/s:circle", SVG)]
    middle = (left + right) / 2, (bottom + heights[-1]) / 2
    assert dots == [(left, bottom), middle, (right, (middle[1] + heights[-1]) / 2)]
    path = chart.findall("s:g/s:path", SVG)[0].get("d")
    assert path == "M " + " L ".join(f"{across:.1f} {down:.1f}" for across, down in dots)
    assert [dot.findtext("s:title", namespaces=SVG) for dot in chart.iterfind("s:g/s:circle", SVG)] == [
        "low",
        "middle",
        "high",
    ]


def test_numbers_titles_and_legend() -> None:
    series = [Series("robust", [], colour=1), Series("adaptive", [], colour=1, dashed=True)]
    chart = etree.fromstring(line_chart("BLEU by K", Axis("K", 0, 64, 2, ".0f"), Axis("BLEU", 20, 30, 1), series))
    texts = [text.text for text in chart.iterfind(".//s:text", SVG)]
    assert texts == ["20.0", "30.0", "0", "32", "64", "K", "BLEU", "robust", "adaptive"]
    assert chart.findtext("s:title", namespaces=SVG) == "BLEU by K"
    groups = chart.findall("s:g", SVG)
    assert [group.get("class") for group in groups] == ["colour-1", "colour-1 dashed"]
    assert [len(group.findall("s:path", SVG)) for group in groups] == [1, 1], "without points only the legend's"
    heights = [float(group.find("s:text", SVG).get("y")) for group in groups]
    assert heights[0] < heights[1]


def test_what_is_quoted_is_escaped() -> None:
    axis = Axis(EVIL)
    chart = line_chart(EVIL, axis, axis, [Series(EVIL, [Point(0, 0, EVIL)])])
    assert "<script>" not in chart
    read = etree.fromstring(chart)
    assert [text for text in read.itertext() if text == EVIL] == [EVIL] * 5


def test_whiskers_end_where_the_axis_says_and_do_not_cover_each_other() -> None:
    x, y = Places("K", [4, 8]), Axis("BLEU", 0, 10, 1)
    series = [
        Series("robust", [Point(4, 5, "", 2.5, 7.5), Point(8, 5, "", high=10), Point(8, 5, "")]),
        Series("vanilla", [Point(4, 5, "", 0, 10)], colour=9),
        Series("base", [Point(4, 5, "")]),
    ]
    chart = etree.fromstring(line_chart("BLEU by K", x, y, series))
    bottom, top = (float(line.get("y1")) for line in chart.iterfind("s:line[@class='grid']", SVG))
    groups = chart.findall("s:g", SVG)
    assert groups[1].get("class") == "colour-1", "the colours begin again"
    both, upper = (path.get("d").split() for path in groups[0].iterfind("s:path[@class='whisker']", SVG))
    quarter = (bottom - top) / 4
    assert (float(both[2]), float(both[4])) == (bottom - quarter, top + quarter)
    assert (float(upper[2]), float(upper[4])) == (bottom - 2 * quarter, top)
    assert (both.count("h"), upper.count("h")) == (2, 1), "a cap only where an end was given"
    first = [float(group.find("s:circle", SVG).get("cx")) for group in groups]
    assert first[0] < first[2] < first[1]
    assert first[2] - first[0] == first[1] - first[2]
    alone = etree.fromstring(line_chart("BLEU by K", x, y, series[1:]))
    assert float(alone.find("s:g/s:circle", SVG).get("cx")) == first[2]


def test_a_title_as_y_gives_an_axis_that_covers_points_and_whiskers() -> None:
    series = [Series("robust", [Point(0, 42, "", low=39, high=44.5)]), Series("base", [Point(1, 36.2, "")])]
    assert line_chart("", Axis("x"), "BLEU", series) == line_chart(
        "", Axis("x"), Axis("BLEU", 36, 46, 5, ".0f"), series
    )


def test_the_picture_grows_with_the_legend_and_long_numbers() -> None:
    def size(*series: Series) -> tuple[int, int]:
        chart = etree.fromstring(line_chart("", Axis("x"), Axis("y"), series))
        width, height = chart.get("viewBox").split()[2:]
        return int(width), int(height)

    assert size() == size(Series("robust, retrieved", [])) == (640, 330)
    assert size(Series("a name of more than thirty letters", []))[0] > 700
    assert size(*[Series("robust", [])] * 20)[1] > 500
    chart = etree.fromstring(line_chart("", Axis("x"), Axis("y", 0, 1_000_000, 1, ",.0f"), []))
    assert float(chart.find("s:line[@class='axis']", SVG).get("x1")) > 70
