"""A model, a store made without the workflow, and files of sentence pairs."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from worlds import load, make_store

from knnmt.datastore import Store
from knnmt.model import TranslationModel

WriteCorpus = Callable[..., list[Path]]


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, and waiting for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def model(family_directory: Callable[[str], Path]) -> TranslationModel:
    return load("marian", family_directory("marian"))


@pytest.fixture
def store(tmp_path: Path, model: TranslationModel) -> Store:
    return make_store(tmp_path / "store", model)


@pytest.fixture
def write_corpus(tmp_path: Path) -> WriteCorpus:
    """Two text files of sentence pairs."""

    def write(pairs: Sequence[tuple[str, str]], name: str = "corpus") -> list[Path]:
        paths = [tmp_path / f"{name}.de", tmp_path / f"{name}.en"]
        for side, path in enumerate(paths):
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        return paths

    return write
