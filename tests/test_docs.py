"""The API reference names everything that is public, by the place where it is defined."""

import importlib
import re
from pathlib import Path

import pytest

import knnmt

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = (DOCS / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", knnmt.__all__)
def test_what_is_public_is_in_the_reference(name: str) -> None:
    module = "errors" if name.endswith("Error") else rf"(\S+\.)?{name}"
    assert re.search(rf"^::: knnmt\.{module}$|`knnmt\.{name}\(", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("path", re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE))
def test_what_is_in_the_reference_exists(path: str) -> None:
    home, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(home), name)
    if name in knnmt.__all__:
        assert getattr(importlib.import_module(home), name) is getattr(knnmt, name)
