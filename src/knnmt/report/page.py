"""Pages from templates: escaped, strict, with the style that all of them share (`base.html`)."""

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from knnmt.corpus import language_of


def render_page(package: str, template: str, /, **values: Any) -> str:
    """The text of a page.

    A template extends `base.html` and fills its blocks `title`, `style` (rules of its own) and `body`. Whatever it
    quotes is escaped, but for `Markup` such as a chart; a value that is missing raises an error.

    Args:
        package: which has the template beside its modules
        template: the name of the file
        values: what the template names

    Example:
        render_page("knnmt.demo", "report.html", model="de-en-small", chart=line_chart(...))
    """
    return _environment(package).get_template(template).render(**values)


def marked(text: str, reference: str) -> Markup:
    """A translation in which the words that the reference has too stand out; a filter of templates."""
    known = {_bare(word) for word in reference.split()}
    words = (Markup("<mark>{}</mark>").format(word) if _bare(word) in known else escape(word) for word in text.split())
    return Markup(" ").join(words)


def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("knnmt.report", ".")]),
        autoescape=select_autoescape(),  # corpora hold whatever their authors wrote
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marked": marked, "language": language_of}
    return environment


def _bare(word: str) -> str:
    return word.strip(".,;:!?()[]\"'„“”").casefold()
