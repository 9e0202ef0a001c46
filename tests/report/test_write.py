"""A report read back: the page, and its files."""

import json
import os
from pathlib import Path

import pytest
from lxml import html
from markupsafe import Markup

from knnmt.errors import StoreError
from knnmt.report import (
    Claim,
    Figure,
    Section,
    Table,
    number,
    row,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
    write_report,
)

EVIL = "<script>&'\""
CHART = Markup('<svg xmlns="http://www.w3.org/2000/svg"><title>chart</title></svg>')


def table(name: str = "main-bleu") -> Table:
    rows = [
        row("base", number(38.1), "no", rule=True),
        row("robust", number(39.2, mark="‡", best=True, note="95% interval 38–40"), EVIL, rule=True),
        row("paper", number(40.3), "yes", quiet=True),
    ]
    return Table(name, "BLEU of all systems", ["system", "BLEU", "remark"], rows, ["‡ p < 0.01"])


def sections() -> list[Section]:
    claims = [
        Claim("Robust is better.", True, "+1.1 BLEU."),
        Claim("In every domain.", False, "Not in law.", "The test set is small."),
        Claim(EVIL, None, EVIL, EVIL),
    ]
    return [
        Section("quality", "Quality", "Is it better?", [table()], [], claims[:1]),
        Section(
            "more", f"More {EVIL}", EVIL, [table("more-bleu")], [Figure("by-k", "By K", CHART, [EVIL])], claims[1:]
        ),
    ]


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_files_of_a_report(tmp_path: Path) -> None:
    path = write_report(tmp_path / "a" / "report", "Title", [], sections())
    directory = path.parent
    assert names(directory) == [
        "claims.json",
        "claims.md",
        "figures/by-k.svg",
        "index.html",
        *(f"tables/{name}.{kind}" for name in ("main-bleu", "more-bleu") for kind in ("csv", "json", "md", "tex")),
    ]
    for kind, write in (("csv", to_csv), ("json", to_json), ("tex", to_latex), ("md", to_markdown)):
        assert (directory / "tables" / f"main-bleu.{kind}").read_text(encoding="utf-8") == write(table())
    assert (directory / "figures" / "by-k.svg").read_text(encoding="utf-8") == CHART
    claims = json.loads((directory / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert [(claim["section"], claim["held"]) for claim in claims] == [
        ("quality", True),
        ("more", False),
        ("more", None),
    ]
    assert claims[1] == {
        "section": "more",
        "text": "In every domain.",
        "held": False,
        "evidence": "Not in law.",
        "why": "The test set is small.",
    }


def test_every_link_leads_somewhere_and_nothing_is_loaded(tmp_path: Path) -> None:
    page = html.parse(write_report(tmp_path, "Title", [], sections())).getroot()
    links = page.xpath("//a/@href")
    assert {"#quality", "tables/main-bleu.csv", "tables/main-bleu.tex", "figures/by-k.svg"} <= set(links)
    for link in links:
        assert page.get_element_by_id(link[1:]) is not None if link.startswith("#") else (tmp_path / link).is_file()
    assert not page.xpath("//script | //link | //img | //*[@src]")
    assert page.xpath("//figure//*[local-name() = 'svg']")


def test_the_summary_has_all_claims_before_the_sections(tmp_path: Path) -> None:
    page = html.parse(write_report(tmp_path, f"T {EVIL}", [("model", EVIL)], sections())).getroot()
    assert page.findtext(".//h1") == page.findtext(".//title") == f"T {EVIL}"
    assert [(name.text, value.text) for name, value in zip(page.iter("dt"), page.iter("dd"), strict=True)] == [
        ("model", EVIL)
    ]
    summary = page.find(".//table[@class='summary']")
    assert [verdict.text for verdict in summary.iter("span") if "verdict" in verdict.get("class")] == [
        "held",
        "did not hold",
        "undecided",
    ]
    assert summary.xpath("count(following::section)") == 2
    assert summary.xpath(".//a/@href") == ["#quality", "#more", "#more"]
    counted = summary.xpath("string(preceding::p[1])")
    assert " ".join(counted.split()) == "Of 3 claims: 1 held, 1 did not hold, 1 undecided."
    second = page.get_element_by_id("more").text_content()
    assert "The test set is small." in second


def test_a_table_on_the_page(tmp_path: Path) -> None:
    page = html.parse(write_report(tmp_path, "Title", [], sections())).getroot()
    shown = page.get_element_by_id("quality").find(".//table[@class='data']")
    assert shown.getparent().get("class") == "scroll"
    assert [[cell.text_content() for cell in each] for each in shown.iter("tr")] == [
        ["system", "BLEU", "remark"],
        ["base", "38.10", "no"],
        ["robust", "39.20‡", EVIL],
        ["paper", "40.30", "yes"],
    ]
    assert [each.get("class", "").split() for each in shown.iterfind("tbody/tr")] == [[], ["rule"], ["faint"]]
    assert [head.get("class") for head in shown.iterfind("thead/tr/th")] == [None, "number", None]
    (best,) = shown.iter("b")
    assert (best.text_content(), best.getparent().get("title")) == ("39.20‡", "95% interval 38–40")
    assert "‡ p < 0.01" in page.get_element_by_id("quality").text_content()


def test_without_claims_there_is_no_summary(tmp_path: Path) -> None:
    page = html.parse(write_report(tmp_path, "Title", [], [Section("a", "A", "Why?")])).getroot()
    assert page.find(".//table") is None


def test_only_files_of_an_earlier_report_are_removed(tmp_path: Path) -> None:
    for name in ("tables", "figures"):
        (tmp_path / name).mkdir()
    others = ["tables/mine.tex", "tables/notes.txt", "figures/mine.svg", "notes.txt"]
    for name in others:
        (tmp_path / name).write_text("mine")
    write_report(tmp_path, "Title", [], sections())
    write_report(tmp_path, "Title", [], sections()[:1])
    kept = [
        "claims.json",
        "claims.md",
        "index.html",
        *(f"tables/main-bleu.{kind}" for kind in ("csv", "json", "tex", "md")),
    ]
    assert names(tmp_path) == sorted(others + kept)


@pytest.mark.parametrize("content", ["{", "[]", '{"files": 1}', '{"files": ["../notes.txt", "notes.txt", 3]}'])
def test_a_list_of_files_that_is_not_ours_removes_nothing(tmp_path: Path, content: str) -> None:
    directory = tmp_path / "report"
    directory.mkdir()
    for path in (tmp_path / "notes.txt", directory / "notes.txt"):
        path.write_text("mine")
    (directory / "claims.json").write_text(content)
    write_report(directory, "Title", [], [])
    ours = [f"report/{name}" for name in ("claims.json", "claims.md", "index.html")]
    assert names(tmp_path) == ["notes.txt", *ours, "report/notes.txt"]


def test_an_interruption_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(tmp_path, "Old", [], sections())
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(StoreError, match="the disk is gone"):
            write_report(tmp_path, "New", [], [])
        with pytest.raises(StoreError, match="the disk is gone"):
            write_report(tmp_path, "New", [], sections()[1:])
    assert before.items() <= {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}.items()
    write_report(tmp_path, "New", [], sections())
    assert names(tmp_path) == sorted(before)


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = sections()[:1] * 2
    with pytest.raises(ValueError, match="2 parts of the report are called 'quality'"):
        write_report(tmp_path, "Title", [], twice)
    assert names(tmp_path) == []
