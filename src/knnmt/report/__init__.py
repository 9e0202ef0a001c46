"""Build pages: one HTML file per page, with its style and charts inside, that loads no other files."""

from knnmt.report.charts import Axis, Point, Series, line_chart
from knnmt.report.page import render_page

__all__ = ["Axis", "Point", "Series", "line_chart", "render_page"]
