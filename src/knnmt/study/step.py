"""A step of a study: one result, computed once and kept on disk under a key of everything that determines it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from knnmt.study.lab import Lab

Result = dict[str, Any]


class MissingResult(LookupError):
    """The result of a step that has not run."""

    def __init__(self, step: "Step") -> None:
        super().__init__(f"{step.title} has not run")


@dataclass(frozen=True)
class Estimate:
    """What a step will take: units of work, whose rate is known or measured, and bytes of disk and memory."""

    units: float
    disk: float = 0
    memory: float = 0


@dataclass(frozen=True)
class Step(ABC):
    """A result and everything that determines it: the fields of its class, some of which are other steps.

    Attributes:
        kind: names its directory, and its rate in estimates
        version: has to be increased when the computation changes, so that results of the old one are not used
        seconds_per_unit: CPU time per unit of work, before one was measured
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    seconds_per_unit: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def title(self) -> str:
        """What is done, for people."""

    @abstractmethod
    def run(self, lab: "Lab") -> Result:
        """Compute the result, as JSON values; larger parts go to `lab.work.directory(self)`."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """What it will take."""

    @property
    def obstacle(self) -> str | None:
        """What it needs that is not installed, in one sentence; None: nothing."""
        return None

    def is_there(self, lab: "Lab") -> bool:
        """Whether the larger parts of a kept result are there."""
        return True

    @cached_property
    def key(self) -> str:
        """Identifies the result: a digest of the class and of all fields."""
        described = [self.kind, self.version, {each.name: _identity(getattr(self, each.name)) for each in fields(self)}]
        return blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=12).hexdigest()

    def inputs(self) -> Iterator["Step"]:
        """The steps whose results it needs."""
        for each in fields(self):
            yield from _steps_in(getattr(self, each.name))


def _steps_in(value: Any) -> Iterator[Step]:
    if isinstance(value, Step):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _steps_in(item)


def _identity(value: Any) -> Any:
    """A JSON value that is the same exactly if the results are."""
    if isinstance(value, Step):
        return value.key
    if hasattr(value, "identity"):  # an object that knows which of its fields matter
        return value.identity
    if isinstance(value, tuple):
        return [_identity(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _identity(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {each.name: _identity(getattr(value, each.name)) for each in fields(value)}]
    return value
