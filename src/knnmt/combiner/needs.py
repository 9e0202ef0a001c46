"""What a combiner has to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a combiner looks at; nothing else is computed for it.

    Attributes:
        k: how many neighbours
        top: how many of the model's highest probabilities
        context: whether what stands before each neighbour in its sentence counts (`Observation.matching_past`)
    """

    k: int
    top: int = 0
    context: bool = False

    @classmethod
    def of_all(cls, several: "Iterable[Needs]") -> "Needs":
        """What is enough for each of several combiners; one neighbour where there is none."""
        several = [cls(1), *several]
        return cls(max(each.k for each in several), max(each.top for each in several), any(e.context for e in several))
