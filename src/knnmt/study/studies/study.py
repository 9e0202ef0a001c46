"""The interface of a study."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from knnmt.report import Section
from knnmt.study.benchmark import Domain
from knnmt.study.setup import Setup
from knnmt.study.step import Result, Step

Results = Callable[[Step], Result]


class Study(ABC):
    """An experiment: the steps it needs, and what their results say. A study is one file and one line in `STUDIES`.

    Attributes:
        name: on the command line, and of its section
        title: what it asks
        about: how it is measured, in a few sentences
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]

    @abstractmethod
    def steps(self, setup: Setup) -> Iterator[Step]:
        """All steps whose results the sections read."""

    @abstractmethod
    def section(self, setup: Setup, results: Results) -> Section:
        """Tables, figures and claims."""

    def suits(self, setup: Setup) -> bool:
        """Whether it can be run on these domains."""
        return True


class DomainStudy(Study):
    """A study of single domains, each with tables of its own."""

    @abstractmethod
    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]: ...

    @abstractmethod
    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section: ...

    def steps(self, setup: Setup) -> Iterator[Step]:
        for domain in setup.domains:
            yield from self.domain_steps(setup, domain)

    def section(self, setup: Setup, results: Results) -> Section:
        parts = [self.domain_section(setup, domain, results) for domain in setup.domains]
        return Section(
            self.name,
            self.title,
            self.about,
            [table for part in parts for table in part.tables],
            [figure for part in parts for figure in part.figures],
            [claim for part in parts for claim in part.claims],
        )
