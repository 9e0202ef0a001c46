"""The walk of a sentence in the docs: what it names exists, and it goes forward through the layers."""

import re
import tomllib
from importlib import import_module
from operator import attrgetter
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
WALKS = {walk.splitlines()[0]: walk for walk in PAGE.split("\n## ")[1:]}
STEP = re.compile(r"^\d+\. `(\S+)\.py`, `(\S+)`: ", re.MULTILINE)


def layers() -> dict[str, int]:
    """How far up each folder stands, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    named = [layer.replace("knnmt.", "").split(" | ") for layer in reversed(contract["layers"])]
    return {name: height for height, names in enumerate(named) for name in names}


def test_there_are_two_walks() -> None:
    assert len(WALKS) == 2


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE))))
def test_every_file_exists(file: str) -> None:
    assert (ROOT / "src" / "knnmt" / file).is_file()


@pytest.mark.parametrize("walk", WALKS)
def test_every_step_names_something_that_its_file_has(walk: str) -> None:
    steps = STEP.findall(WALKS[walk])
    assert len(steps) == len(re.findall(r"^\d+\. ", WALKS[walk], re.MULTILINE)) > 0
    for file, name in steps:
        assert attrgetter(name)(import_module(f"knnmt.{file.replace('/', '.')}"))


@pytest.mark.parametrize("walk", WALKS)
def test_folders_never_go_back(walk: str) -> None:
    height = layers()
    heights = [height[PurePosixPath(file).parts[0]] for file, _ in STEP.findall(WALKS[walk])]
    assert heights == sorted(heights)
