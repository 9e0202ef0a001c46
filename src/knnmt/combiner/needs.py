"""What a combiner needs to see."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

# What a combiner may see of a neighbour's context, with the columns of an observation that show it.
CONTEXT: dict[str, tuple[str, ...]] = {
    "prefix": ("matching_past", "same_beginning"),
    "source": ("source_similarity",),
    "continuation": ("continued",),
}


@dataclass(frozen=True)
class Needs:
    """What a combiner needs to see; nothing else is computed for it.

    Attributes:
        k: how many neighbours
        top: how many of the model's highest probabilities
        context: what it uses of each neighbour's context: `prefix`, the tokens before it in its sentence; `source`, its
            source; `continuation`, whether its predecessor was a neighbour one step ago
    """

    k: int
    top: int = 0
    context: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.context - CONTEXT.keys():
            raise ValueError(f"there is no context {', '.join(sorted(unknown))}, only {', '.join(CONTEXT)}")

    @classmethod
    def of_all(cls, several: "Iterable[Needs]") -> "Needs":
        """The needs of several combiners together; one neighbour if there is no combiner."""
        several = [cls(1), *several]
        context = frozenset().union(*(each.context for each in several))
        return cls(max(each.k for each in several), max(each.top for each in several), context)

    @property
    def context_columns(self) -> AbstractSet[str]:
        """The columns of an observation that show the context it uses."""
        return {column for part in self.context for column in CONTEXT[part]}
