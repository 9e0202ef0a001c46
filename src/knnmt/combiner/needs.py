"""What a combiner needs to see."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a combiner needs to see; nothing else is computed for it.

    Attributes:
        k: how many neighbours
        top: how many of the model's highest probabilities
        context: whether it uses the tokens before each neighbour in its sentence (`Observation.matching_past`)
    """

    k: int
    top: int = 0
    context: bool = False

    @classmethod
    def of_all(cls, several: "Iterable[Needs]") -> "Needs":
        """The needs of several combiners together; one neighbour if there is no combiner."""
        several = [cls(1), *several]
        return cls(max(each.k for each in several), max(each.top for each in several), any(e.context for e in several))
