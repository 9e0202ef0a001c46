"""Options, declared once: checks, command-line options, help texts and records follow from the declaration."""

import math
import types
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_origin, get_type_hints

from knnmt.errors import MethodError

AUTO = "auto"  # how None is written on the command line, for options that can be None

_KEY = "knnmt.option"
_WORDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


@dataclass(frozen=True)
class _Declared:
    """The arguments of `option`."""

    help: str
    group: str | None
    minimum: float | None
    above: float | None
    maximum: float | None
    below: float | None
    choices: tuple[str, ...]


def option(
    default: Any,
    help: str,
    *,
    group: str | None = None,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    choices: Iterable[str] = (),
) -> Any:
    """A field of an `Options` class that users can set.

    Args:
        default: the value that is used unless another is given
        help: one line for the command line
        group: its heading in the help text
        minimum, maximum: the range of a number, inclusive
        above, below: the same, exclusive
        choices: all words that are allowed; empty: any

    Example:
        updates: int = option(5000, "At most.", group="Training", minimum=1)
    """
    declared = _Declared(help, group, minimum, above, maximum, below, tuple(choices))
    return field(default=default, metadata={_KEY: declared})


@dataclass(frozen=True)
class Option:
    """One declared option.

    Attributes:
        kind: int, float, str or bool; for a tuple, the kind of its items
        optional: whether it may be None, which means that the value is chosen later
        length: of a tuple; 0 for any length; None if it is not a tuple
    """

    name: str
    kind: type
    optional: bool
    length: int | None
    default: Any
    declared: _Declared

    @property
    def flag(self) -> str:
        """The option as written on the command line."""
        return f"--{self.name.replace('_', '-')}"

    def parse(self, text: str) -> Any:
        """The value of a command-line word; the items of a tuple are separated by commas."""
        if self.optional and text == AUTO:
            return None
        if self.length is None:
            return self._item(text)
        return tuple(self._item(part.strip()) for part in text.split(","))

    def checked(self, value: Any) -> Any:
        """The value in the declared type. Raises `MethodError` if it is not allowed."""
        if self.optional and value is None:
            return None
        if self.length is None:
            return self._checked_item(value)
        items = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
        if self.length and len(items) != self.length:
            raise MethodError(f"{self.flag} takes {self.length} values, not {len(items)}.")
        return tuple(self._checked_item(item) for item in items)

    def _item(self, text: str) -> Any:
        try:
            return self.kind(text)
        except ValueError:
            raise MethodError(f"{self.flag} is {text}, which is not {self._possible()}.") from None

    def _checked_item(self, value: Any) -> Any:
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        declared = self.declared
        wrong = not isinstance(value, self.kind) or (isinstance(value, bool) and self.kind is not bool)
        wrong = wrong or (bool(declared.choices) and value not in declared.choices)
        if not wrong and self.kind in (int, float):
            wrong = (
                not math.isfinite(value)
                or (declared.minimum is not None and value < declared.minimum)
                or (declared.above is not None and value <= declared.above)
                or (declared.maximum is not None and value > declared.maximum)
                or (declared.below is not None and value >= declared.below)
            )
        if wrong:
            raise MethodError(f"{self.flag} is {value}, which is not possible; give {self._possible()}.")
        return value

    def _possible(self) -> str:
        """The allowed values, in words."""
        declared = self.declared
        if declared.choices:
            return f"one of {', '.join(declared.choices)}"
        ends = [
            f"{word} {limit:,g}"
            for word, limit in (
                ("from", declared.minimum),
                ("above", declared.above),
                ("to", declared.maximum),
                ("below", declared.below),
            )
            if limit is not None
        ]
        return " ".join([_WORDS[self.kind], *ends]) + (f", or {AUTO}" if self.optional else "")


@dataclass(frozen=True)
class Options:
    """Base of classes whose declared fields are checked when an object is created."""

    def __post_init__(self) -> None:
        for each in options_of(type(self)).values():
            object.__setattr__(self, each.name, each.checked(getattr(self, each.name)))


def options_of(kind: type[Options]) -> dict[str, Option]:
    """The declared options of a class, by name; fields without a declaration are not included."""
    hints = get_type_hints(kind)
    return {
        each.name: _option(each.name, hints[each.name], each.default, each.metadata[_KEY])
        for each in fields(kind)
        if _KEY in each.metadata
    }


def _option(name: str, hint: Any, default: Any, declared: _Declared) -> Option:
    parts = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    optional = type(None) in parts
    (kind,) = [part for part in parts if part is not type(None)]
    length = None
    if get_origin(kind) is tuple:
        items = get_args(kind)
        length = 0 if items[-1] is Ellipsis else len(items)
        kind = items[0]
    return Option(name, kind, optional, length, default, declared)
