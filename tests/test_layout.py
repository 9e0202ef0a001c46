"""A module can be imported by its name, and has every name that it offers."""

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


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_offers_is_there(name: str) -> None:
    module = import_module(name)
    assert [each for each in getattr(module, "__all__", []) if not hasattr(module, each)] == []
