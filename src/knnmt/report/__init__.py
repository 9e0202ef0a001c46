"""Build pages and reports: HTML that loads no other files, charts as SVG, tables as CSV, JSON, LaTeX and Markdown."""

from knnmt.report.axes import Axis, Places
from knnmt.report.charts import Point, Series, line_chart
from knnmt.report.latex import to_latex
from knnmt.report.markdown import claims_to_markdown, to_markdown
from knnmt.report.page import render_page
from knnmt.report.sections import Claim, Figure, Section
from knnmt.report.tables import Cell, Row, Table, bold_best, count, number, percent, row, text, to_csv, to_json
from knnmt.report.write import write_report

__all__ = [
    "Axis",
    "Cell",
    "Claim",
    "Figure",
    "Places",
    "Point",
    "Row",
    "Section",
    "Series",
    "Table",
    "bold_best",
    "claims_to_markdown",
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
    "to_markdown",
    "write_report",
]
