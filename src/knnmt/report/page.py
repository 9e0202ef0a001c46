"""Render pages from templates, with escaping and the common style of `base.html`."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from knnmt.corpus import language_of


def render_page(package: str, template: str, /, **values: Any) -> str:
    """The text of a page.

    A template extends `base.html` and fills its blocks `title`, `style` (additional rules) and `body`. All values are
    escaped, except `Markup` such as a chart; a missing value raises an error.

    Args:
        package: the package that contains the template
        template: the name of the file
        values: the variables of the template

    Example:
        render_page("knnmt.demo", "report.html", model="de-en-small", chart=line_chart(...))
    """
    return _environment(package).get_template(template).render(**values)


def marked(text: str, reference: str) -> Markup:
    """Template filter: mark the words of a translation that are also in the reference."""
    known = {_bare(word) for word in reference.split()}
    words = (Markup("<mark>{}</mark>").format(word) if _bare(word) in known else escape(word) for word in text.split())
    return Markup(" ").join(words)


def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("knnmt.report", ".")]),
        autoescape=select_autoescape(),  # corpora may contain HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marked": marked, "language": language_of}
    return environment


def _bare(word: str) -> str:
    return word.strip(".,;:!?()[]\"'„“”").casefold()
