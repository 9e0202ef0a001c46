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
    def sections(self, setup: Setup, results: Results) -> Iterator[tuple[str, Section]]:
        """Tables, figures and claims, by the name of a part; a report replaces a part only by the same part."""


class DomainStudy(Study):
    """A study of single domains: each has its own tables, and can be added to a report later."""

    @abstractmethod
    def domain_steps(self, setup: Setup, domain: Domain) -> Iterator[Step]: ...

    @abstractmethod
    def domain_section(self, setup: Setup, domain: Domain, results: Results) -> Section: ...

    def steps(self, setup: Setup) -> Iterator[Step]:
        for domain in setup.domains:
            yield from self.domain_steps(setup, domain)

    def sections(self, setup: Setup, results: Results) -> Iterator[tuple[str, Section]]:
        for domain in setup.domains:
            yield f"{self.name}-{domain.name}", self.domain_section(setup, domain, results)
