"""Axes of charts: where a value is, and the numbers or names beside the axis."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from knnmt.report.numbers import shown

_ROUND = (1, 2, 2.5, 5, 10, 20)  # steps between numbers that are easy to read, times a power of ten
_MARGIN = 0.06  # on both sides of named places, so that no point is on the edge


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, divided into `steps` equal intervals, with a number at each boundary."""

    title: str
    low: float = 0.0
    high: float = 1.0
    steps: int = 5
    number_format: str = ".1f"

    @classmethod
    def covering(cls, title: str, values: Iterable[float], *, number_format: str = "", most_steps: int = 6) -> Self:
        """The shortest axis with round numbers that contains all values; it starts at 0 only if they do.

        Args:
            title: what it measures
            values: all that has to fit; without any, 0 to 1
            number_format: of the numbers; as many decimals as they need if empty
            most_steps: as many intervals at most
        """
        known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        if low == high:  # one value: in the middle of a small range
            low, high = low - (abs(low) / 10 or 1), high + (abs(high) / 10 or 1)
        power = math.floor(math.log10((high - low) / most_steps))
        for size in _ROUND:
            step = size * 10.0**power
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last - first <= most_steps:
                break
        decimals = max(0, -power + (size == 2.5) - (size >= 10))
        return cls(title, first * step, last * step, last - first, number_format or f",.{decimals}f")

    def share(self, value: float) -> float:
        """The position of a value on the axis: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """The position of each number, as a share, and the number."""
        shares = [step / self.steps for step in range(self.steps + 1)]
        return [(share, shown(self.low + share * (self.high - self.low), self.number_format)) for share in shares]


@dataclass(frozen=True)
class Places:
    """An axis with a name at certain values only, such as the K's that were tried.

    Attributes:
        title: what it measures
        values: in ascending order; the x of every point is one of them, or between them
        names: shown instead of the values
        scale: "even" puts all names at the same distance, whatever their values

    Example:
        Places("K", [4, 8, 16, 32], scale="log")
        Places("domain", range(3), ["IT", "law", "medical"])
    """

    title: str
    values: Sequence[float]
    names: Sequence[str] = ()
    scale: Literal["even", "linear", "log"] = "even"

    def __post_init__(self) -> None:
        if list(self.values) != sorted(set(self.values)):
            raise ValueError(f"{self.title}: the values of an axis have to ascend")
        if self.names and len(self.names) != len(self.values):
            raise ValueError(f"{self.title}: {len(self.names)} names for {len(self.values)} values")

    def share(self, value: float) -> float:
        """The position of a value on the axis: 0 at the left end, 1 at the right end."""
        if len(self.values) < 2:
            return 0.5
        first, last = self._place(self.values[0]), self._place(self.values[-1])
        return _MARGIN + (1 - 2 * _MARGIN) * (self._place(value) - first) / (last - first)

    def ticks(self) -> list[tuple[float, str]]:
        """The position of each name, as a share, and the name."""
        names = self.names or [shown(value, ",g") for value in self.values]
        return [(self.share(value), name) for value, name in zip(self.values, names, strict=True)]

    def _place(self, value: float) -> float:
        if self.scale == "linear":
            return value
        if self.scale == "log":
            return math.log(value)
        after = min(max(sum(each <= value for each in self.values), 1), len(self.values) - 1)
        left, right = self.values[after - 1], self.values[after]
        return after - 1 + (value - left) / (right - left)
