"""Tables of results: what is shown, and for each figure the exact number and where it comes from."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from knnmt.report.numbers import shown

MISSING = "–"
MARKS = "†‡*"  # after a number, explained in the notes of its table
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: as shown, such as "38.89‡"
        value: the number, unrounded; None if the text says all
        best: shown in bold
        note: shown while the mouse is on the cell
        record: what identifies the figure (signature, seed, versions), only in JSON
    """

    text: str
    value: float | int | str | None = None
    best: bool = False
    note: str = ""
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> float | int | str | None:
        """What a program should read: the value, else the text; None for a missing number."""
        if self.value is not None:
            return self.value
        return None if self.text == MISSING else self.text

    @property
    def is_text(self) -> bool:
        """True for words; False for numbers, missing ones included."""
        return isinstance(self.content, str)

    @property
    def figure(self) -> str:
        """The text without marks."""
        return self.text if self.is_text else self.text.rstrip(MARKS)

    @property
    def mark(self) -> str:
        """The marks after a number, which do not count for its alignment."""
        return self.text[len(self.figure) :]

    def to_json(self) -> dict[str, Any]:
        """The keys of the record follow those of the cell, and never replace them."""
        own = {"text": self.text, "value": self.content, "best": self.best, "note": self.note}
        return own | {key: value for key, value in self.record.items() if key not in own}


@dataclass(frozen=True)
class Row:
    """A row of cells; `rule` draws a line above it, `quiet` is for figures shown only for comparison."""

    cells: Sequence[Cell]
    rule: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Table:
    """A table; `name` is also its file name, and `notes` are shown below it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_file_name(self.name)
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                label = row.cells[0].text if row.cells else ""
                raise ValueError(
                    f"{self.name}: {len(row.cells)} cells for {len(self.columns)} columns in row {label!r}"
                )

    def numeric(self) -> list[bool]:
        """For each column, whether it is aligned to the right: all but the first, unless one of its cells is text."""
        columns = range(len(self.columns))
        return [column > 0 and not any(row.cells[column].is_text for row in self.rows) for column in columns]


def text(shown_as: str, *, note: str = "", record: dict[str, Any] | None = None) -> Cell:
    """A cell of words."""
    return Cell(shown_as, note=note, record=record or {})


def number(
    value: float | None,
    spec: str = ".2f",
    *,
    mark: str = "",
    best: bool = False,
    note: str = "",
    record: dict[str, Any] | None = None,
) -> Cell:
    """A number in this format, followed by a mark such as "‡"; a dash for None.

    Example:
        number(38.8912, mark="‡", note="95% interval 37.1–40.6", record={"signature": signature})
    """
    if value is None or not math.isfinite(value):  # JSON has no infinity
        return Cell(MISSING, note=note, record=record or {})
    return Cell(shown(value, spec) + mark, value, best, note, record or {})


def percent(share: float | None, spec: str = ".1f", **more: Any) -> Cell:
    """A share as a percentage; the value remains the share."""
    if share is None or not math.isfinite(share):
        return number(None, **more)
    return replace(number(share, **more), text=f"{shown(100 * share, spec)}%{more.get('mark', '')}")


def count(value: int | None, **more: Any) -> Cell:
    """A whole number with thousands separators."""
    return number(value, ",d", **more)


def row(*cells: Cell | str, rule: bool = False, quiet: bool = False) -> Row:
    """A row; plain strings become cells of text.

    Example:
        row("robust", number(38.89), count(1_203_441), rule=True)
    """
    return Row([cell if isinstance(cell, Cell) else text(cell) for cell in cells], rule, quiet)


def bold_best(rows: Sequence[Row], columns: Sequence[int], *, lowest: bool = False) -> list[Row]:
    """The same rows, with the best number of each of these columns in bold.

    Quiet rows do not compete. Numbers that look the same after rounding are all bold.
    """
    best = {column: _best(rows, column, lowest) for column in columns}
    return [
        replace(
            row,
            cells=[
                replace(cell, best=True) if not row.quiet and cell.figure in best.get(column, ()) else cell
                for column, cell in enumerate(row.cells)
            ],
        )
        for row in rows
    ]


def _best(rows: Sequence[Row], column: int, lowest: bool) -> set[str]:
    """How the best number of the column looks; empty if it has no numbers."""
    cells = [row.cells[column] for row in rows if not row.quiet]
    numbers = {cell.value: cell.figure for cell in cells if isinstance(cell.value, int | float)}
    return {numbers[min(numbers) if lowest else max(numbers)]} if numbers else set()


def to_csv(table: Table) -> str:
    """Column titles and unrounded values; a missing number is an empty field."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([cell.content for cell in row.cells] for row in table.rows)
    return file.getvalue()


def to_json(table: Table) -> str:
    """Everything: text, value, note and record of each cell."""
    value = {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "rows": [[cell.to_json() for cell in row.cells] for row in table.rows],
        "notes": list(table.notes),
    }
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def check_file_name(name: str) -> None:
    """Names become file names and anchors of links: small letters, digits and hyphens."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a file name; use small letters, digits and hyphens")
