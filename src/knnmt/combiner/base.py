"""The interface of a combiner."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor

from knnmt.combiner.combination import Combination
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import Observation
from knnmt.datastore.config_file import CONFIG
from knnmt.errors import MethodError


class Combiner(ABC):
    """Decides how much to trust the neighbours. It never sees the vocabulary.

    Attributes:
        method: the name of its method
        needs: what it needs to see
        record: how it was fitted: dev NLL, data, seed, options
    """

    method: ClassVar[str]

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.record: dict[str, Any] = {}

    @property
    def k(self) -> int:
        """How many neighbours it needs."""
        return self.needs.k

    @abstractmethod
    def combine(self, observation: Observation) -> Combination:
        """The neighbours' weights and λ of each row. The observation must satisfy `needs`."""

    def contributions(self, observation: Observation) -> dict[str, Tensor]:
        """By how many nats each kind of evidence raises a neighbour's score above that of an average neighbour.

        Empty for methods that do not judge neighbours one by one.  # each [rows, K]
        """
        return {}

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options from which `from_options` makes the same combiner."""

    @classmethod
    @abstractmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """A combiner with these options; weights, if it has any, are loaded later."""

    @property
    def signature(self) -> str:
        """What identifies the combiner in the signature of a translation."""
        shown = {name: value for name, value in self.options().items() if value != []}
        return "|".join(
            f"{name}:{value:g}" if isinstance(value, float) else f"{name}:{value}" for name, value in shown.items()
        )

    def save(self, directory: Path) -> None:
        """Write config.json into an existing directory."""
        config = {"method": self.method, "options": self.options(), "record": self.record}
        (directory / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path, config: dict[str, Any]) -> Self:
        """Read what `save` wrote; `config` is the content of config.json."""
        combiner = cls.from_options(config["options"])
        combiner.record = config["record"]
        return combiner


def damaged(directory: Path, error: Exception | None = None) -> MethodError:
    """The error for a combiner whose files cannot be read or have changed."""
    if isinstance(error, PermissionError):
        return MethodError(
            f"The combiner in {directory} cannot be read: permission denied; ask its owner for the permission to read."
        )
    return MethodError(f"The combiner in {directory} is missing or damaged; fit it again.")
