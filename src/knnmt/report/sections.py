"""What a report on experiments consists of: sections with tables, figures, and the claims that they test."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from knnmt.report.tables import Table, check_file_name


@dataclass(frozen=True)
class Figure:
    """A chart; `name` is also its file name, and `notes` are shown below it."""

    name: str
    title: str
    svg: Markup
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_file_name(self.name)


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether it is so here.

    Attributes:
        text: the claim
        held: None if it is undecided or was not tested
        evidence: our figures, in one sentence
        why: the reason, where it is known
    """

    text: str
    held: bool | None
    evidence: str
    why: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        return "undecided" if self.held is None else "held" if self.held else "did not hold"


@dataclass(frozen=True)
class Section:
    """One question.

    Attributes:
        name: for links
        title: the heading
        about: a short paragraph: the question, and how it is measured
        tables, figures, claims: in the order in which they are shown
    """

    name: str
    title: str
    about: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = ()

    def __post_init__(self) -> None:
        check_file_name(self.name)
