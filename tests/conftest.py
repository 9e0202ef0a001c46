"""Fixtures for every folder of tests."""

import os

# Tests' tensors are small: on a busy machine a second thread mostly waits for the first. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from families import make_family


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_mine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Exported graphs are those of this run."""
    os.environ["KNNMT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def family_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the directory of a family's model (``family_directory("fsmt")``), made at the first call."""

    @cache
    def directory(name: str) -> Path:
        path = tmp_path_factory.mktemp("families") / name
        make_family(name, path)
        return path

    return directory
