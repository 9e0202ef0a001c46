"""Tables read back from CSV and JSON."""

import csv
import io
import json
import math

import pytest

from knnmt.report import Cell, Row, Table, bold_best, count, number, percent, row, text, to_csv, to_json

ROWS = [
    row("base", number(38.354321), count(None)),
    row('robust, "K" = 8', number(1 / 3, mark="‡", note="an interval", record={"seed": 1}), count(1234567), rule=True),
]
NAMES = ["system", "BLEU", "entries"]


def table(rows: list[Row], columns: list[str] = NAMES) -> Table:
    return Table("main-bleu", "BLEU, by system", columns, rows, ["‡ p < 0.01"])


def test_cells_show_rounded_numbers_and_keep_the_exact_ones() -> None:
    assert number(38.8912, mark="‡") == Cell("38.89‡", 38.8912)
    assert number(-0.256, "+.1f") == Cell("−0.3", -0.256)
    assert percent(0.8342, mark="*", note="of all") == Cell("83.4%*", 0.8342, note="of all")
    assert count(1203441) == Cell("1,203,441", 1203441)
    assert text("IT") == Cell("IT")


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_no_number_is_a_dash(value: float | None) -> None:
    for cell in (number(value, mark="‡", best=True), percent(value, mark="‡")):
        assert cell == Cell("–")
        assert cell.content is None
        assert not cell.is_text


def test_marks_are_apart_from_the_number_but_not_from_words() -> None:
    assert (number(1, mark="†*").figure, number(1, mark="†*").mark) == ("1.00", "†*")
    assert (text("beam*").figure, text("beam*").mark) == ("beam*", "")


def test_csv_has_the_exact_values() -> None:
    read = list(csv.reader(io.StringIO(to_csv(table(ROWS)))))
    assert read == [NAMES, ["base", "38.354321", ""], ['robust, "K" = 8', repr(1 / 3), "1234567"]]


def test_json_has_everything() -> None:
    read = json.loads(to_json(table(ROWS)))
    assert list(read) == ["name", "title", "columns", "rows", "notes"]
    assert (read["name"], read["title"], read["columns"]) == ("main-bleu", "BLEU, by system", NAMES)
    assert read["notes"] == ["‡ p < 0.01"]
    assert read["rows"][0][2] == {"text": "–", "value": None, "best": False, "note": ""}
    assert read["rows"][1][0]["value"] == 'robust, "K" = 8'
    assert read["rows"][1][1] == {"text": "0.33‡", "value": 1 / 3, "best": False, "note": "an interval", "seed": 1}


def test_a_record_does_not_replace_what_is_shown() -> None:
    assert number(1.0, record={"value": 2, "seed": 3}).to_json() == number(1.0, record={"seed": 3}).to_json()


def test_the_best_of_each_column_is_bold() -> None:
    rows = [
        row("base", number(1.001, mark="‡"), number(3.0), "a"),
        row("vanilla", number(0.5), number(None), "b"),
        row("robust", number(1.002), number(2.0), "c"),
        row("the paper", number(9.0), number(1.0), "d", quiet=True),
    ]
    rows = bold_best(bold_best(rows, [1, 3]), [2], lowest=True)
    assert [[cell.best for cell in each.cells] for each in rows] == [
        [False, True, False, False],  # looks the same as the best
        [False, False, False, False],
        [False, True, True, False],
        [False, False, False, False],
    ]
    assert rows[-1].quiet


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    rows = [row(number(8), number(None), number(1.0), "1–2"), row(number(16), number(2.0), "none", number(3.0))]
    assert table(rows, ["K", "a", "b", "c"]).numeric() == [False, True, False, False]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 3 columns in row 'base'"):
        table([row("base", "1")])


@pytest.mark.parametrize("name", ["", "../x", "a b", "Main", "a.b", "-a"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a file name"):
        Table(name, "", [], [])
