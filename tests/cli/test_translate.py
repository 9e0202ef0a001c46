"""Standard input to standard output, line by line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentences import SENTENCES
from tolerances import SHARE

from knnmt import Settings, Translator

Run = Callable[..., Any]
ONE, TWO, THREE = (SENTENCES[index][0] for index in (10, 24, 36))
LINES = [ONE, "", f"{TWO} {THREE}", "   ", THREE]
TEXT = "".join(f"{line}\n" for line in LINES)
QUICK = ("--beam", "2", "--max-length", "12")

TOKEN = {"token", "lambda", "p", "p_nmt", "p_knn", "temperature", "nmt_top", "knn_top", "neighbours"}
NEIGHBOUR = {"token", "distance", "confidence", "weight", "c", "source", "target", "origin", "position"}


@pytest.fixture
def translator(world: Path) -> Translator:
    return Translator.open("store", settings=Settings(beam=2, max_length=12), device="cpu")


def test_one_line_out_for_each_line_in(run: Run, translator: Translator) -> None:
    one, two, three = translator.translate([ONE, TWO, THREE])
    assert len({one, two, three}) == 3
    result = run("translate", "store", *QUICK, stdin=TEXT)
    assert result.code == 0, result.err
    assert result.out == f"{one}\n\n{two} {three}\n\n{three}\n"
    assert result.err == f"{translator.signature}\n"
    without_end = run("translate", "store", *QUICK, stdin=TEXT.rstrip("\n").replace("\n", "\r\n"))
    assert without_end.out == result.out
    assert run("translate", "store", *QUICK, stdin="").out == ""


def test_order_is_kept_over_several_reads(run: Run, translator: Translator) -> None:
    """More lines than are read at once, short and long by turns."""
    lines = [ONE, "Kaffee", THREE, "", "Tee"] * 4
    expected = {line: next(translator.translate([line])) for line in set(lines)}
    result = run("translate", "store", *QUICK, "--batch-size", "1", stdin="".join(f"{line}\n" for line in lines))
    assert result.out.split("\n") == [*(expected[line] for line in lines), ""]


def test_no_split(run: Run, world: Path) -> None:
    whole = Translator.open("store", settings=Settings(beam=2, max_length=12, split=False), device="cpu")
    result = run("translate", "store", *QUICK, "--no-split", stdin=TEXT)
    assert result.out.split("\n") == [*whole.translate(LINES), ""]
    assert "split:no" in result.err


def test_n_best(run: Run, world: Path) -> None:
    lines = run("translate", "store", *QUICK, "--n-best", "2", stdin=f"{ONE}\n\n{THREE}\n").out.split("\n")
    assert lines.pop() == ""
    assert len(lines) == 6, "two lines for each line in"
    assert lines[2:4] == ["", ""]
    for first, second in (lines[:2], lines[4:]):
        (high, best), (low, other) = (line.split("\t") for line in (first, second))
        assert float(high) >= float(low)
        assert best != other


def test_fewer_translations_than_were_asked_for(run: Run, world: Path) -> None:
    """With room for the end of sentence only there is one."""
    lines = run("translate", "store", "--max-length", "1", "--n-best", "3", stdin=f"{ONE}\n{ONE}\n").out.split("\n")
    assert len(lines) == 7, "three lines for each line in, and the end of the last"


def test_json_explains_every_token(run: Run, translator: Translator) -> None:
    result = run("translate", "store", *QUICK, "--json", stdin=TEXT)
    assert result.code == 0, result.err
    values = [json.loads(line, parse_constant=lambda name: pytest.fail(name)) for line in result.out.splitlines()]
    assert [value["source"] for value in values] == LINES
    assert [value["translation"] for value in values] == list(translator.translate(LINES))
    assert values[1]["tokens"] == values[3]["tokens"] == []
    tokens = values[0]["tokens"] + values[2]["tokens"]
    assert tokens
    for token in tokens:
        assert set(token) >= TOKEN
        assert 0 <= token["p"] <= 1
        assert len(token["neighbours"]) == 4
        assert sum(neighbour["weight"] for neighbour in token["neighbours"]) == pytest.approx(1, abs=SHARE)
        for neighbour in token["neighbours"]:
            assert set(neighbour) >= NEIGHBOUR
            assert (neighbour["source"], neighbour["target"]) in SENTENCES
            assert 0 <= neighbour["confidence"] <= 1


def test_methods(run: Run, world: Path, model_name: str) -> None:
    base = run("translate", "store", *QUICK, "--method", "base", stdin=TEXT)
    assert base.err.startswith("method:base|")
    assert base.out == run("translate", "store", *QUICK, "--method", "base", "--model", model_name, stdin=TEXT).out
    assert base.out != run("translate", "store", *QUICK, stdin=TEXT).out
    run("build", "unfitted", "memory.de", "memory.en", "--model", model_name, "--precision", "float32")
    unfitted = run("translate", "unfitted", *QUICK, stdin=TEXT)
    assert unfitted.code == 0
    assert unfitted.out == base.out
    assert unfitted.err.startswith(
        "warning: Nothing was fitted yet (store unfitted); run `knnmt fit unfitted DEV` first."
    )


def test_an_over_long_line_is_a_warning(run: Run, world: Path) -> None:
    result = run("translate", "store", "--beam", "1", "--max-length", "5", stdin=f"{'Haus ' * 400}\n")
    assert result.code == 0
    assert result.out.count("\n") == 1
    assert "warning: A sentence of" in result.err
    assert result.complaints == []
