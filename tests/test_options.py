"""Options: declared once, checked whoever sets them, read from words."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from knnmt.errors import MethodError
from knnmt.options import Options, option, options_of


@dataclass(frozen=True)
class Base(Options):
    many: int = option(3, "How many.", group="Numbers", minimum=1, maximum=9)
    rate: float = option(0.5, "How fast.", above=0, below=1)


@dataclass(frozen=True)
class Derived(Base):
    many: int = option(4, "How many here.", minimum=0)
    form: str = option("round", "Which form.", choices=("round", "square"))
    parts: tuple[str, ...] = option((), "Which parts.", choices=("a", "b"))
    both: tuple[float, float] = option((0.1, 0.2), "Two shares.", minimum=0)
    size: int | None = option(None, "A size.", minimum=1)
    loud: bool = option(False, "Whether it is loud.")
    hidden: int = 7


def test_declared_fields_are_options_and_others_are_not() -> None:
    found = options_of(Derived)
    assert list(found) == ["many", "rate", "form", "parts", "both", "size", "loud"]
    assert {name: (each.kind, each.optional, each.length) for name, each in found.items()} == {
        "many": (int, False, None),
        "rate": (float, False, None),
        "form": (str, False, None),
        "parts": (str, False, 0),
        "both": (float, False, 2),
        "size": (int, True, None),
        "loud": (bool, False, None),
    }
    assert (found["many"].default, found["many"].declared.help) == (4, "How many here."), "a subclass may differ"
    assert options_of(Base)["many"].declared.group == "Numbers"
    assert found["many"].flag == "--many"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"many": 0}, 0),
        ({"rate": 0.25}, 0.25),
        ({"parts": "b"}, ("b",)),
        ({"parts": ["a", "b"]}, ("a", "b")),
        ({"parts": ()}, ()),
        ({"both": [1, 0]}, (1.0, 0.0)),
        ({"size": None}, None),
        ({"size": 5}, 5),
        ({"loud": True}, True),
    ],
    ids=str,
)
def test_what_is_possible(given: dict[str, Any], expected: Any) -> None:
    (name,) = given
    assert getattr(Derived(**given), name) == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"many": -1}, "--many is -1, which is not possible; give a whole number from 0."),
        ({"many": 1.5}, "--many is 1.5, which is not possible; give a whole number from 0."),
        ({"many": True}, "--many is True, which is not possible; give a whole number from 0."),
        ({"many": "3"}, "--many is 3, which is not possible; give a whole number from 0."),
        ({"rate": 0}, "--rate is 0.0, which is not possible; give a number above 0 below 1."),
        ({"rate": 1.0}, "--rate is 1.0, which is not possible; give a number above 0 below 1."),
        ({"rate": math.nan}, "--rate is nan, which is not possible; give a number above 0 below 1."),
        ({"form": "flat"}, "--form is flat, which is not possible; give one of round, square."),
        ({"parts": ["a", "c"]}, "--parts is c, which is not possible; give one of a, b."),
        ({"both": (0.1,)}, "--both takes 2 values, not 1."),
        ({"both": (0.1, math.inf)}, "--both is inf, which is not possible; give a number from 0."),
        ({"size": 0}, "--size is 0, which is not possible; give a whole number from 1, or auto."),
        ({"loud": 1}, "--loud is 1, which is not possible; give true or false."),
    ],
    ids=str,
)
def test_what_is_not(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MethodError) as caught:
        Derived(**given)
    assert str(caught.value) == sentence


def test_a_range_with_both_ends() -> None:
    assert [Base(many=many).many for many in (1, 9)] == [1, 9]
    with pytest.raises(MethodError, match="give a whole number from 1 to 9"):
        Base(many=10)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("many", "12", 12),
        ("rate", "1e-3", 0.001),
        ("form", "square", "square"),
        ("parts", "a, b", ("a", "b")),
        ("both", "0.3,0.4", (0.3, 0.4)),
        ("size", "auto", None),
        ("size", "7", 7),
    ],
)
def test_words_of_a_command_line(name: str, text: str, value: Any) -> None:
    assert options_of(Derived)[name].parse(text) == value


@pytest.mark.parametrize(("name", "text"), [("many", "x"), ("many", "auto"), ("rate", "much"), ("both", "0.3,")])
def test_words_that_are_no_value(name: str, text: str) -> None:
    with pytest.raises(MethodError, match=f"--{name} is .*, which is not a (whole )?number"):
        options_of(Derived)[name].parse(text)
