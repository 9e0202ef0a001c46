"""Fixtures for every folder of tests."""

import os

# Tests' tensors are small: on a busy machine a second thread mostly waits for the first. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from families import make_family

NOISE = os.environ.get("KNNMT_ROUNDING")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if NOISE:
        skip = pytest.mark.skip(reason="with noise nothing is the same to the bit")
        for item in items:
            if item.get_closest_marker("to_the_bit"):
                item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def rounding_noise() -> None:
    if NOISE:
        import rounding

        rounding.add_noise(float(NOISE))


@pytest.fixture(autouse=True)
def rounding_noise_of_its_own(request: pytest.FixtureRequest) -> None:
    if NOISE:
        import rounding

        rounding.restart(request.node.nodeid)


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
