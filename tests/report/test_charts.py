"""The chart, read back."""

from lxml import etree

from knnmt.report import Axis, Point, Series, line_chart

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
