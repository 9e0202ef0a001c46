"""The interface of a method: its combiner, its options, and how it is fitted."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from knnmt.combiner import Combiner, Needs
from knnmt.datastore import Store
from knnmt.model import Engine
from knnmt.options import Options, option
from knnmt.training import Features

LARGEST_K = 1024  # a search for more neighbours takes longer than the model


@dataclass(frozen=True)
class Fitting:
    """The inputs of fitting a method.

    Attributes:
        features: what model and search found at the dev positions
        store, engine: the store that was searched, and the engine that computed the states
        bleu: BLEU of a combiner on the first n dev sentences; None where there are none to decode
        of_store: the store's combiner of a method, by the method's name; None where it has none
        stored: features of n sentences of the store, as if they were not in it; None where `features` are of such
        again: features of n sentences of the store that are translated again, so that they find themselves
    """

    features: Features
    store: Store
    engine: Engine
    bleu: Callable[[Combiner, int], float] | None
    of_store: Callable[[str], Combiner | None]
    stored: Callable[[int], Features] | None
    again: Callable[[int], Features]


@dataclass(frozen=True)
class FitTable:
    """A table to show to users.

    Attributes:
        rows: cells as text; the first column names the row
        chosen: row and column of the cell that was chosen
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    chosen: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fitted:
    """The result of fitting a method.

    Attributes:
        record: saved with the combiner, in JSON types
        findings: further results for programs, in JSON types; not saved
        facts, tables: results for users
        interrupted: whether Ctrl-C stopped it; the combiner is then the best so far
    """

    combiner: Combiner
    record: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, Any] = field(default_factory=dict)
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[FitTable] = field(default_factory=list)
    interrupted: bool = False


@dataclass(frozen=True)
class Method(Options, ABC):
    """A way to fit a combiner to a store. The first line of a method's docstring is shown in `knnmt fit --help`.

    A method's options are its declared fields (`knnmt.options.option`). They define the options of `knnmt fit`, the
    keywords of `knnmt.fit` and the checks of both.

    Attributes:
        name: the name for users
        combiner: the class of its combiners, needed to load them
    """

    name: ClassVar[str]
    combiner: ClassVar[type[Combiner]]

    seed: int = option(1, "The same seed gives the same result.", minimum=0)

    @abstractmethod
    def needs(self, entries: int) -> Needs:
        """What has to be collected to fit it on a store with this number of entries."""

    @abstractmethod
    def fit(self, fitting: Fitting) -> Fitted:
        """Fit a combiner."""

    @property
    def reads_keys(self) -> bool:
        """Whether fitting reads and projects stored keys; if so, the features keep the queries."""
        return False

    @classmethod
    def summary(cls) -> str:
        """One line for `knnmt fit --help`."""
        return (cls.__doc__ or cls.name).strip().splitlines()[0]
