"""Fixtures for every folder of tests."""

import os

# Tests' tensors are small: on a busy machine a second thread mostly waits for the first. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from families import make_family

from knnmt.workflow import pairing

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


_check = pairing._check


@pytest.fixture(scope="session", autouse=True)
def pairing_is_not_checked() -> None:
    """The families' models know too little to tell a sentence's translation from another one."""
    pairing._check = lambda *_: None


@pytest.fixture
def pairing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a model that can."""
    monkeypatch.setattr(pairing, "_check", _check)


@pytest.fixture(scope="session")
def family_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the directory of a family's model (``family_directory("fsmt")``), made at the first call."""

    @cache
    def directory(name: str) -> Path:
        path = tmp_path_factory.mktemp("families") / name
        make_family(name, path)
        return path

    return directory
