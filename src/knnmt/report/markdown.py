"""Tables and claims as Markdown, to paste where people read them."""

from collections.abc import Iterable, Sequence

from knnmt.report.sections import Claim
from knnmt.report.tables import Cell, Table


def to_markdown(table: Table) -> str:
    """Figures as shown, the best in bold; then the notes."""
    aligned = ["--:" if numeric else "---" for numeric in table.numeric()]
    lines = [_row(map(_escaped, table.columns)), _row(aligned)]
    lines += [_row(map(_cell, row.cells)) for row in table.rows]
    notes = ["", " ".join(map(_escaped, table.notes))] if table.notes else []
    return "\n".join([*lines, *notes]) + "\n"


def claims_to_markdown(claims: Sequence[Claim]) -> str:
    """What was claimed, whether it is so, and the figures that say so."""
    lines = [_row(("here", "claim", "our figures")), _row(["---"] * 3)]
    lines += [
        _row((each.verdict, _escaped(each.text), _escaped(f"{each.evidence} {each.why}".strip()))) for each in claims
    ]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    shown = _escaped(cell.text)
    return f"**{shown}**" if cell.best else shown


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Bars would end a cell, and marks of emphasis after a number would start one."""
    return text.replace("|", "\\|").replace("*", "\\*")
