"""What a method is: a combiner, the options of fitting it, and how it is fitted."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from knnmt.combiner import Combiner, Needs
from knnmt.datastore import Store
from knnmt.model import Engine
from knnmt.options import Options, option
from knnmt.training import Features

LARGEST_K = 1024  # a search for more takes longer than the model


@dataclass(frozen=True)
class Fitting:
    """What a method is fitted with.

    Attributes:
        features: the dev positions, after model and search have been over them
        store, engine: what they were searched in and computed by
        bleu: BLEU of a combiner on the first so many dev sentences; None where there are none to decode
        of_store: the combiner of a method that the store has already; None where it has none
    """

    features: Features
    store: Store
    engine: Engine
    bleu: Callable[[Combiner, int], float] | None
    of_store: Callable[[str], Combiner | None]


@dataclass(frozen=True)
class FitTable:
    """Something to show people.

    Attributes:
        rows: cells as text; the first column names the row
        chosen: row and column of the cell that stands for what was chosen
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    chosen: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fitted:
    """What fitting a method gave.

    Attributes:
        record: kept with the combiner, in JSON's types
        findings: what else programs are told, in JSON's types; not kept
        facts, tables: for people
        interrupted: by Ctrl-C; the combiner is the best so far
    """

    combiner: Combiner
    record: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, Any] = field(default_factory=dict)
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[FitTable] = field(default_factory=list)
    interrupted: bool = False


@dataclass(frozen=True)
class Method(Options, ABC):
    """A way to get a combiner for a store. The first line of a method's docstring is its line in `knnmt fit --help`.

    A method's options are its declared fields (`knnmt.options.option`): the options of `knnmt fit`, the keywords of
    `knnmt.fit` and what is checked all follow from them.

    Attributes:
        name: what users call it
        combiner: the class of its combiners, which is needed to load them again
    """

    name: ClassVar[str]
    combiner: ClassVar[type[Combiner]]

    seed: int = option(1, "The same seed gives the same result.", minimum=0)

    @abstractmethod
    def needs(self, entries: int) -> Needs:
        """What has to be collected to fit it on a store with so many entries."""

    @abstractmethod
    def fit(self, fitting: Fitting) -> Fitted:
        """Fit it."""

    @property
    def reads_keys(self) -> bool:
        """Whether fitting reads stored keys and projects them; the queries are then kept in the features."""
        return False

    @classmethod
    def summary(cls) -> str:
        """One line for people."""
        return (cls.__doc__ or cls.name).strip().splitlines()[0]
