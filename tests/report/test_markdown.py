"""Tables and claims as Markdown, read by a Markdown processor."""

import re
from xml.etree import ElementTree

import pytest

from knnmt.report import Claim, Table, claims_to_markdown, number, row, text, to_markdown

TABLE = Table(
    "main",
    "BLEU",
    ["", "a|b", "interval"],
    [
        row("base", number(23.4), text("22–25")),
        row("robust | old", number(38.381, mark="†", best=True), text("37–40")),
        row("worse", number(20.0, mark="*"), text("19–21")),
        row("none", number(None), text("–")),
    ],
    ["† p < 0.05.", "BLEU|tok:13a"],
)
CLAIMS = [
    Claim("A is better.", True, "A − B: +1.00 ± 0.30."),
    Claim("B|C.", None, "Nobody knows.", "Too few sentences."),
]


def parsed(source: str) -> ElementTree.Element:
    markdown = pytest.importorskip("markdown")
    return ElementTree.fromstring(f"<div>{markdown.markdown(source, extensions=['tables'])}</div>")


def cells_of(page: ElementTree.Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in line] for line in page.iter("tr")]


def test_the_text() -> None:
    assert to_markdown(TABLE).splitlines() == [
        r"|  | a\|b | interval |",
        "| --- | --: | --- |",
        "| base | 23.40 | 22–25 |",
        r"| robust \| old | **38.38†** | 37–40 |",
        r"| worse | 20.00\* | 19–21 |",
        "| none | – | – |",
        "",
        r"† p < 0.05. BLEU\|tok:13a",
    ]
    assert to_markdown(Table("a", "A", ["x"], [row("1")])) == "| x |\n| --- |\n| 1 |\n"


def test_claims() -> None:
    assert claims_to_markdown(CLAIMS).splitlines()[2:] == [
        "| held | A is better. | A − B: +1.00 ± 0.30. |",
        r"| undecided | B\|C. | Nobody knows. Too few sentences. |",
    ]


def test_a_processor_reads_the_same() -> None:
    page = parsed(to_markdown(TABLE))
    assert cells_of(page) == [
        ["", "a|b", "interval"],
        ["base", "23.40", "22–25"],
        ["robust | old", "38.38†", "37–40"],
        ["worse", "20.00*", "19–21"],
        ["none", "–", "–"],
    ]
    assert ["".join(bold.itertext()) for bold in page.iter("strong")] == ["38.38†"]
    [notes] = page.iter("p")
    assert re.sub(r"\\(.)", r"\1", "".join(notes.itertext())) == "† p < 0.05. BLEU|tok:13a"
    assert cells_of(parsed(claims_to_markdown(CLAIMS)))[2][1] == "B|C."
