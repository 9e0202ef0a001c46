"""Methods that come from elsewhere: registered by a program, or by another package's entry point."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from knnmt.combiner import Needs
from knnmt.errors import MethodError
from knnmt.methods import (
    Fitted,
    Fitting,
    Method,
    RobustMethod,
    Vanilla,
    VanillaMethod,
    method_named,
    method_with,
    methods,
    register,
    registry,
)
from knnmt.options import option, options_of

PACKAGE = '''
from dataclasses import dataclass
from knnmt.combiner import Needs
from knnmt.methods import Fitted, Method, Vanilla
from knnmt.options import option

@dataclass(frozen=True)
class Half(Method):
    """Half of each."""

    name = "half"
    combiner = Vanilla
    k: int = option(4, "Neighbours.", minimum=1)

    def needs(self, entries):
        return Needs(self.k)

    def fit(self, fitting):
        return Fitted(Vanilla(self.k, 0.5, 10.0))
'''


@dataclass(frozen=True)
class Quarter(Method):
    """A quarter of the vote."""

    name = "quarter"
    combiner = Vanilla

    k: int = option(2, "Neighbours.", minimum=1)

    def needs(self, entries: int) -> Needs:
        return Needs(self.k)

    def fit(self, fitting: Fitting) -> Fitted:
        return Fitted(Vanilla(self.k, 0.25, 10.0))


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten afterwards."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    registry._from_other_packages.cache_clear()
    yield
    registry._from_other_packages.cache_clear()


@pytest.mark.usefixtures("own_table")
def test_a_program_registers_a_method() -> None:
    assert "quarter" not in methods()
    assert register(Quarter) is Quarter
    assert register(Quarter) is Quarter, "twice is no harm"
    assert method_named("quarter") is Quarter
    assert method_with("quarter", {"k": 3}) == Quarter(k=3)
    assert Quarter.summary() == "A quarter of the vote."


@pytest.mark.usefixtures("own_table")
@pytest.mark.parametrize("name", ["robust", "base"])
def test_a_name_that_is_taken(name: str) -> None:
    taken = type("Taken", (Quarter,), {"name": name})
    with pytest.raises(MethodError, match=f"There is a method {name} already"):
        register(taken)
    assert method_named("robust") is RobustMethod


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_table: None) -> Path:
    """An installed package, as pip leaves it behind."""
    (tmp_path / "half_package.py").write_text(PACKAGE, encoding="utf-8")
    installed = tmp_path / "half_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: half_package\nVersion: 1.0\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text("[knnmt.methods]\nhalf = half_package:Half\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "half_package", raising=False)
    return installed


def test_a_package_gives_a_method_by_an_entry_point(package: Path) -> None:
    half = method_named("half")
    assert options_of(half)["k"].default == 4
    assert list(methods()) == ["vanilla", "adaptive", "robust", "evidence", "half"]
    assert isinstance(method_with("half", {"k": 2}), half)


@pytest.mark.parametrize("broken", ["half_package:Missing", "no_such_package:Half", "half_package:option"])
def test_a_broken_package_does_not_hide_the_others(package: Path, broken: str) -> None:
    (package / "entry_points.txt").write_text(f"[knnmt.methods]\nhalf = {broken}\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=f"The method half cannot be loaded from {broken}"):
        assert list(methods()) == ["vanilla", "adaptive", "robust", "evidence"]


def test_an_option_that_a_method_does_not_have() -> None:
    with pytest.raises(MethodError, match=r"^--dc is of the method robust and says nothing to vanilla; leave it out"):
        method_with("vanilla", {"dc": 3})
    with pytest.raises(MethodError, match="vanilla has --seed, --k, --decode-best, --decode-sentences"):
        method_with("vanilla", {"love": 3})
    assert method_with("vanilla", {"decode_best": 0}) == VanillaMethod(decode_best=0)
