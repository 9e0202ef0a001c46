"""What pages are made of: one HTML file with its style and charts in it, which loads nothing from anywhere."""

from knnmt.report.charts import Axis, Point, Series, line_chart
from knnmt.report.page import render_page

__all__ = ["Axis", "Point", "Series", "line_chart", "render_page"]
