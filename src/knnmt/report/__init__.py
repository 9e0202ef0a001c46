"""Build pages: one HTML file per page, with its style and charts inside, that loads no other files."""

from knnmt.report.axes import Axis, Places
from knnmt.report.charts import Point, Series, line_chart
from knnmt.report.latex import to_latex
from knnmt.report.page import render_page
from knnmt.report.tables import Cell, Row, Table, bold_best, count, number, percent, row, text, to_csv, to_json

__all__ = [
    "Axis",
    "Cell",
    "Places",
    "Point",
    "Row",
    "Series",
    "Table",
    "bold_best",
    "count",
    "line_chart",
    "number",
    "percent",
    "render_page",
    "row",
    "text",
    "to_csv",
    "to_json",
    "to_latex",
]
