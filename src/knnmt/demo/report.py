"""The demo as a page: one HTML file that loads nothing else."""

from pathlib import Path

from knnmt.datastore import storage_errors
from knnmt.demo.examples import differing
from knnmt.demo.plot import lambda_plot
from knnmt.demo.story import METHODS, Demo
from knnmt.report import render_page


def write_report(demo: Demo) -> Path:
    """Write report.html and lambda.svg next to the store."""
    story = demo.story
    plot = lambda_plot(story["evaluation"])
    page = render_page(
        "knnmt.demo",
        "report.html",
        **story,
        model=demo.given[0],
        languages=demo.languages,
        systems=("base", *METHODS),
        examples=differing(story["evaluation"]),
        chapters=demo.chapters,
        wheels=demo.wheels,
        plot=plot,
    )
    with storage_errors(demo.directory):
        (demo.directory / "lambda.svg").write_text(plot, encoding="utf-8")
        path = demo.directory / "report.html"
        path.write_text(page, encoding="utf-8")
    return path
