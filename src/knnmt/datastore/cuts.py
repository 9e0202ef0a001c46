"""Which entries a view leaves out: a share of them, at random or by the model's confidence."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from knnmt.datastore.entries import Entries
from knnmt.datastore.ids import Ids
from knnmt.errors import StoreError


class Cut(ABC):
    """Ranks all entries and leaves out those whose ranks are between two shares of them.

    Raises `StoreError` unless 0 ≤ start < stop ≤ 1.
    """

    start: float
    stop: float

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= 1:
            raise StoreError(
                f"cannot leave out the entries from {self.start} to {self.stop} of a ranking; "
                "give two shares from 0 to 1, the smaller one first"
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """A name for the view."""

    @abstractmethod
    def ranking(self, entries: Entries) -> Ids:
        """Positions of all entries, 0 … len − 1, in the order of their ranks."""

    def kept(self, entries: Entries) -> Entries:
        """The entries that stay."""
        first, last = (round(share * len(entries)) for share in (self.start, self.stop))
        return entries.without(entries.ids(self.ranking(entries)[first:last]))


@dataclass(frozen=True)
class ConfidenceCut(Cut):
    """Leaves out the entries between two shares of the ranking by log p_NMT, highest first; ties in the order of ids.

    Example:
        ConfidenceCut(0.0, 0.2)     # without the 20% that the model is surest of
    """

    start: float
    stop: float

    @property
    def name(self) -> str:
        return f"confidence-{_percent(self.start)}-{_percent(self.stop)}"

    def ranking(self, entries: Entries) -> Ids:
        confidence = np.concatenate(
            [each.confidence[entries.mask.get(each.name, slice(None))] for each in entries.segments]
        )
        return np.argsort(-confidence, kind="stable")


@dataclass(frozen=True)
class RandomCut(Cut):
    """Leaves out a share of the entries at random; a larger share leaves out the same ones, and more."""

    stop: float
    seed: int
    start: float = 0.0

    @property
    def name(self) -> str:
        return f"random-{_percent(self.start)}-{_percent(self.stop)}-seed-{self.seed}"

    def ranking(self, entries: Entries) -> Ids:
        return np.random.default_rng(self.seed).permutation(len(entries))


def _percent(share: float) -> str:
    return f"{100 * share:g}"
