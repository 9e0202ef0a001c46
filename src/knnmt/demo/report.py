"""The story as a page: one HTML file that asks nobody for anything."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from knnmt.corpus import language_of
from knnmt.datastore import storage_errors
from knnmt.demo.examples import differing
from knnmt.demo.plot import lambda_plot
from knnmt.demo.story import METHODS, Demo


def write_report(demo: Demo) -> Path:
    """Write report.html and lambda.svg beside the store."""
    story = demo.story
    plot = lambda_plot(story["evaluation"])
    environment = Environment(
        loader=PackageLoader("knnmt.demo", "."),
        autoescape=select_autoescape(),  # catalogues hold whatever their authors wrote
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marked": _marked, "language": language_of}
    page = environment.get_template("report.html").render(
        **story,
        model=demo.given[0],
        languages=demo.languages,
        systems=("base", *METHODS),
        examples=differing(story["evaluation"]),
        chapters=demo.chapters,
        wheels=demo.wheels,
        plot=Markup(plot),
    )
    with storage_errors(demo.directory):
        (demo.directory / "lambda.svg").write_text(plot, encoding="utf-8")
        path = demo.directory / "report.html"
        path.write_text(page, encoding="utf-8")
    return path


def _marked(text: str, reference: str) -> Markup:
    """Words that the reference has too stand out."""
    known = {_bare(word) for word in reference.split()}
    words = (Markup("<mark>{}</mark>").format(word) if _bare(word) in known else escape(word) for word in text.split())
    return Markup(" ").join(words)


def _bare(word: str) -> str:
    return word.strip(".,;:!?()[]\"'„“”").casefold()
