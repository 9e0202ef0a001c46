"""The small interface that every way of combining model and neighbours fulfils."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from knnmt.combiner.combination import Combination
from knnmt.combiner.needs import Needs
from knnmt.combiner.observation import Observation
from knnmt.datastore.config_file import CONFIG
from knnmt.errors import MethodError


class Combiner(ABC):
    """Decides how much to trust the neighbours. It never sees the vocabulary.

    Attributes:
        method: the name it is registered under
        needs: what it has to be shown
        record: how it came to be: dev loss, data, seed, options
    """

    method: ClassVar[str]

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.record: dict[str, Any] = {}

    @property
    def k(self) -> int:
        """How many neighbours it looks at."""
        return self.needs.k

    @abstractmethod
    def combine(self, observation: Observation) -> Combination:
        """Weights of the neighbours and λ for each row; the observation holds what it needs."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What `from_options` makes the same combiner of."""

    @classmethod
    @abstractmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """A combiner as it was saved, before its weights, if it has any, are loaded."""

    @property
    def signature(self) -> str:
        """What a reader needs to know of it to get the same translations again."""
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
        """Read what `save` wrote; `config` is what config.json says."""
        combiner = cls.from_options(config["options"])
        combiner.record = config["record"]
        return combiner


def damaged(directory: Path, error: Exception | None = None) -> MethodError:
    """What to say of a combiner whose files cannot be read, or are not as they were written."""
    if isinstance(error, PermissionError):
        return MethodError(
            f"The combiner in {directory} cannot be read: permission denied; ask its owner for the permission to read."
        )
    return MethodError(f"The combiner in {directory} is missing or damaged; fit it again.")
