"""A module can be imported by its name: no function of its package hides it."""

import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import knnmt

MODULES = [module.name for module in pkgutil.walk_packages(knnmt.__path__, "knnmt.") if "__main__" not in module.name]


@pytest.mark.parametrize("name", MODULES)
def test_no_function_hides_a_module(name: str) -> None:
    import_module(name)
    package, _, short = name.rpartition(".")
    assert isinstance(getattr(import_module(package), short), ModuleType)
