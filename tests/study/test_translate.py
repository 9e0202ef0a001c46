"""Translations in blocks, which longer test sets have in common with shorter ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_study import PLAIN, setup_of, write_pairs

from knnmt.study.setup import Setup
from knnmt.study.steps import System, Translate
from knnmt.study.steps import translate as steps

LINES = [(f"Satz {number}.", f"Sentence {number}.") for number in range(7)]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """A test set of seven lines, in blocks of three."""
    monkeypatch.setattr(steps, "BLOCK", 3)
    write_pairs(tmp_path / PLAIN, "train", LINES)
    write_pairs(tmp_path / PLAIN, "dev", LINES)
    write_pairs(tmp_path / PLAIN, "test", LINES)
    return setup_of(tmp_path, [PLAIN])


def blocks(setup: Setup, lines: int | None) -> list[Translate]:
    return list(setup.system("base", setup.domains[0].limited(lines)).blocks)


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 6, 7, None])
def test_blocks_are_the_whole_in_order(setup: Setup, lines: int | None) -> None:
    found = [pair.source for block in blocks(setup, lines) for pair in block.split.pairs]
    assert found == [source for source, _ in LINES[:lines]]
    assert all(len(block.split) <= 3 for block in blocks(setup, lines))


def test_whole_blocks_are_used_again(setup: Setup) -> None:
    """Only what is more is translated."""
    keys = {lines: [block.key for block in blocks(setup, lines)] for lines in (2, 3, 5, 6, 7)}
    assert [len(each) for each in keys.values()] == [1, 1, 2, 2, 3]
    assert keys[7][:2] == keys[6]
    assert keys[6][:1] == keys[5][:1] == keys[3]
    assert keys[5][1] != keys[6][1]
    assert keys[2] != keys[3]


def test_halves_begin_where_they_begin(setup: Setup) -> None:
    for path in (setup.benchmark.path / PLAIN).glob("test.*"):
        path.unlink()
    halved = setup_of(setup.benchmark.path, [PLAIN])
    assert [(each.split.start, each.split.stop) for each in blocks(halved, None)] == [(3, 6), (6, 7)]


def test_translations_of_all_blocks(setup: Setup) -> None:
    system = setup.system("base", setup.domains[0])
    results = {block.key: [f"{block.split.start}", f"{block.split.stop}"] for block in system.blocks}

    class Lab:
        def result(self, step: Translate) -> dict[str, Any]:
            return {"translations": results[step.key]}

    assert system.translations(Lab()) == ["0", "3", "3", "6", "6", "7"]  # type: ignore[arg-type]


def test_a_system_is_its_name_and_its_blocks(setup: Setup) -> None:
    one = setup.system("base", setup.domains[0])
    assert one.identity == ["base", *(block.key for block in one.blocks)]
    assert System("other", one.blocks).identity != one.identity
    assert json.dumps(one.identity)
    titles = [block.title for block in one.blocks]
    assert titles == [
        f"Translate koran test, lines {first}–{last}, with the model alone" for first, last in ((1, 3), (4, 6), (7, 7))
    ]
