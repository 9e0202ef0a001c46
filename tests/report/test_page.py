import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from lxml import html
from markupsafe import Markup

from knnmt.report import render_page
from knnmt.report.page import marked

TEMPLATE = """{% extends "base.html" %}
{% block title %}{{ title }}{% endblock %}
{% block style %}
.mine { color: red }
{% endblock %}
{% block body %}
<p>{{ text }}</p><p>{{ chart }}</p><p>{{ text|marked("so on") }} {{ "deu_Latn"|language }}</p>
{% endblock %}
"""
EVIL = "<b>x</b> & so"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a template of its own."""
    name = "package_with_a_page"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "page.html").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_a_page_has_the_shared_style_and_its_own(package: str) -> None:
    text = render_page(package, "page.html", title="A & B", text=EVIL, chart=Markup("<i>chart</i>"))
    page = html.document_fromstring(text)
    assert text.startswith("<!DOCTYPE html>")
    assert page.findtext(".//title") == "A & B"
    style = page.findtext(".//style")
    assert style is not None
    assert style.index("body {") < style.index(".mine {")
    assert [paragraph.text_content() for paragraph in page.iter("p")] == [EVIL, "chart", f"{EVIL} de"]
    assert [mark.text for mark in page.iter("mark")] == ["so"]
    assert len(page.findall(".//i")) == 1


def test_what_a_template_is_not_given_is_an_error(package: str) -> None:
    with pytest.raises(UndefinedError, match="'chart' is undefined"):
        render_page(package, "page.html", title="", text="")


def test_words_of_the_reference_are_marked_whatever_their_case_and_punctuation() -> None:
    assert marked("The dog, <a>", "a (dog). THE") == "<mark>The</mark> <mark>dog,</mark> &lt;a&gt;"
