"""`knnmt demo`, as it is typed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner
from worlds import quick_fit

from knnmt.cli.main import app
from knnmt.demo import story
from knnmt.demo.wheels import Wheel
from knnmt.errors import DemoError


@pytest.fixture
def arguments(
    index: tuple[Wheel, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family_directory: Callable[[str], Path]
) -> list[str]:
    monkeypatch.setattr(story, "WHEELS", index)
    monkeypatch.setattr(story, "fit", quick_fit)
    monkeypatch.chdir(tmp_path)
    return ["demo", "--model", str(family_directory("marian")), "--device", "cpu"]


def test_the_story_is_told_and_told_again(arguments: list[str], tmp_path: Path) -> None:
    first = CliRunner().invoke(app, arguments, catch_exceptions=False)
    directory = tmp_path / "knnmt-demo" / "marian"
    assert (directory / "report.html").is_file()
    assert "(done before)" not in first.stderr
    for number, words in enumerate(
        ("Real text", "Memory, dev", "A store", "How far", "Sentences", "Why", "Teaching"), 1
    ):
        assert f"{number}. {words}" in first.stderr
    told = json.loads((directory / "story.json").read_text())
    for shown in (
        f"{told['evaluation']['systems']['robust']['bleu']:.2f}",
        f"{told['store']['entries']:,} decoder states",
        "the memory's vote",
        told["lesson"]["reference"].split()[0],
        "minutes, after",
    ):
        assert shown in first.stdout
    again = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert again.stderr.count("(done before)") == 7
    value = json.loads(again.stdout)
    assert value.pop("report") == "knnmt-demo/marian/report.html"
    assert value == told


def test_without_a_network_it_says_what_it_needs(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, DemoError)
    assert "run the same command again where a package index can be reached" in str(result.exception)
    assert not (tmp_path / "knnmt-demo").exists()
