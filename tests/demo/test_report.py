"""The page and the plot, read back."""

from pathlib import Path
from typing import Any

import pytest
from lxml import etree, html

from knnmt.demo import Demo, write_report
from knnmt.demo.plot import lambda_plot

EVIL = "<script>alert('x')</script> & so on"


def system(bleu: float, curve: list[float | None]) -> dict[str, Any]:
    return {
        "bleu": bleu,
        "bleu_ci": [bleu - 1, bleu + 1],
        "chrf": 50.0,
        "nll": 2.0,
        "gold_in_k": None if not curve else 0.75,
        "mean_lambda": None if not curve else 0.5,
        "tokens_per_second": 1234.5,
        "lambda_by_confidence": [
            {
                "confidence": [i % 5 / 5, (i % 5 + 1) / 5],
                "retrieved": i < 5,
                "positions": 0 if lam is None else 10 + i,
                "mean_lambda": lam,
            }
            for i, lam in enumerate(curve)
        ],
    }


CURVE = [0.9, 0.8, None, 0.6, 0.5, 0.5, 0.4, 0.3, 0.2, 0.1]


@pytest.fixture
def story() -> dict[str, Any]:
    neighbour = {"token": "▁a", "weight": 0.5, "distance": 12.0, "source": EVIL, "target": "a", "origin": "x.po:3"}
    token = {
        "token": "▁<b>",
        "lambda": 0.25,
        "nmt_top": [{"token": EVIL, "p": 0.5}],
        "knn_top": [{"token": "▁a", "p": 1.0}],
        "neighbours": [neighbour],
    }
    return {
        "text": {"train": 8834, "dev": 600, "test": 2, "repeated": 5678, "fuzzy": 4},
        "store": {"entries": 101444},
        "methods": [{"name": "robust", "record": {"training": {"seed": 1}}}],
        "evaluation": {
            "systems": {
                "base": system(16.4, []),
                "vanilla": system(26.0, CURVE),
                "adaptive": system(27.0, CURVE),
                "robust": system(28.5, CURVE),
            },
            "significance": {"baseline": "base"}
            | {name: {"bleu_p": 0.001} for name in ("vanilla", "adaptive", "robust")},
            "sentences": 2,
            "sources": [EVIL, "gleich"],
            "references": ["the dog", "same"],
            "translations": {"base": ["a cat", "same"], "robust": ["The dog, a", "same"]},
            "signature": {"bleu": "BLEU|x"},
        },
        "explanation": {"source": EVIL, "base": "b", "translation": "t", "tokens": [token]},
        "lesson": {"source": "s", "before": "b", "reference": "r", "after": "r", "taught": 2, "tokens": 3},
    }


@pytest.fixture
def page(story: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    demo = Demo(tmp_path, "some/model")
    demo.directory.mkdir()
    monkeypatch.setattr(Demo, "languages", ("de", "en"))
    demo.story = story
    return write_report(demo)


def test_the_page_asks_nobody_for_anything_and_escapes_what_it_quotes(page: Path) -> None:
    tree = html.parse(str(page))
    assert tree.findall(".//script") == tree.findall(".//img") == tree.findall(".//link") == []
    assert not [value for value in tree.xpath("//@src | //@href")]
    assert "url(" not in page.read_text()
    text = tree.getroot().text_content()
    assert text.count(EVIL) >= 4
    assert "16.4 → 28.5 BLEU" in tree.findtext(".//h1")


def test_tables_examples_and_marks(page: Path) -> None:
    tree = html.parse(str(page))
    rows = [[cell.text_content().strip() for cell in row] for row in tree.findall(".//table")[0].iter("tr")]
    assert rows[1] == ["base", "16.40", "15.4–17.4", "", "50.0", "2.000", "", "", "1,234"]
    assert rows[4] == ["robust", "28.50", "27.5–29.5", "0.001", "50.0", "2.000", "75%", "0.50", "1,234"]
    example = tree.findall(".//dl")[0]
    assert [mark.text for mark in example.iter("mark")] == ["The", "dog,"]
    assert "Messages left out: 5,678 repeated, 4 fuzzy. Seed" in " ".join(tree.getroot().text_content().split())
    assert "knnmt translate" in tree.getroot().text_content()


def test_the_plot_is_where_the_numbers_are(story: dict[str, Any], page: Path) -> None:
    plot = lambda_plot(story["evaluation"])
    assert (page.parent / "lambda.svg").read_text() == plot
    svg = etree.fromstring(plot)
    space = {"s": "http://www.w3.org/2000/svg"}
    [group] = svg.xpath("//s:g[s:text='robust, retrieved']", namespaces=space)
    points = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in group.findall("s:circle", space)]
    x0, x1 = (float(svg.xpath("//s:line[@class='axis']", namespaces=space)[0].get(name)) for name in ("x1", "x2"))
    heights = [float(line.get("y1")) for line in svg.xpath("//s:line[@class='grid']", namespaces=space)]
    expected = [(0.1, 0.9), (0.3, 0.8), (0.7, 0.6), (0.9, 0.5)]
    for (x, y), (confidence, lam) in zip(points, expected, strict=True):
        assert x == pytest.approx(x0 + confidence * (x1 - x0), abs=0.1)
        assert y == pytest.approx(heights[0] + lam * (heights[-1] - heights[0]), abs=0.1)
    assert [each.get("class") for each in svg.findall("s:g", space)] == [
        "colour-0",
        "colour-0 dashed",
        "colour-1",
        "colour-1 dashed",
    ]
    assert "λ 0.90 over 10 tokens" in group.xpath("string(s:circle/s:title)", namespaces=space)
