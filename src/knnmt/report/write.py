"""Write a report: a page to read, and its tables and figures as files for other programs."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from knnmt.datastore import storage_errors
from knnmt.datastore.files import write_json, write_text
from knnmt.report.latex import to_latex
from knnmt.report.markdown import claims_to_markdown, to_markdown
from knnmt.report.page import render_page
from knnmt.report.sections import Claim, Section
from knnmt.report.tables import to_csv, to_json

_CLAIMS = "claims.json"
_OURS = re.compile(r"tables/[a-z0-9-]+\.(csv|json|tex|md)|figures/[a-z0-9-]+\.svg")


def write_report(directory: Path, title: str, facts: Sequence[tuple[str, str]], sections: Sequence[Section]) -> Path:
    """Write the report and return the path of its page.

    The directory then has index.html, which needs no other file, claims.json and .md, tables/NAME.csv, .json, .tex and
    .md, and figures/NAME.svg. Each file is replaced as a whole. What an earlier report wrote for tables and figures
    that are no longer there is removed, and nothing else.

    Args:
        directory: created if it does not exist
        title: the heading of the page
        facts: what the results depend on, as names and values: model, corpus, versions
        sections: in the order of the page
    """
    _check_names(sections)
    claims = [claim for section in sections for claim in section.claims]
    page = render_page(
        "knnmt.report",
        "sections.html",
        title=title,
        facts=facts,
        sections=sections,
        tally=Counter(claim.verdict for claim in claims),
    )
    files = _files(sections)
    with storage_errors(directory):
        for folder in ("tables", "figures"):
            (directory / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_text(directory / name, content)
        write_text(directory / "index.html", page)
        write_text(directory / "claims.md", claims_to_markdown(claims))
        for name in _written_before(directory) - files.keys():
            (directory / name).unlink(missing_ok=True)
        write_json(directory / _CLAIMS, {"title": title, "claims": _claims(sections), "files": sorted(files)})
    return directory / "index.html"


def _files(sections: Sequence[Section]) -> dict[str, str]:
    """The content of each file of tables and figures."""
    files: dict[str, str] = {}
    for section in sections:
        for table in section.tables:
            for kind, write in (("csv", to_csv), ("json", to_json), ("tex", to_latex), ("md", to_markdown)):
                files[f"tables/{table.name}.{kind}"] = write(table)
        for figure in section.figures:
            files[f"figures/{figure.name}.svg"] = str(figure.svg)
    return files


def _claims(sections: Sequence[Section]) -> list[dict[str, Any]]:
    return [_claim(section, claim) for section in sections for claim in section.claims]


def _claim(section: Section, claim: Claim) -> dict[str, Any]:
    return {
        "section": section.name,
        "text": claim.text,
        "held": claim.held,
        "evidence": claim.evidence,
        "why": claim.why,
    }


def _written_before(directory: Path) -> set[str]:
    """The files that the last report lists: the directory may also contain tables that somebody else wrote."""
    try:
        names = json.loads((directory / _CLAIMS).read_text(encoding="utf-8"))["files"]
        return {name for name in names if _OURS.fullmatch(name)}
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # none yet, or a claims.json that is not ours
        return set()


def _check_names(sections: Sequence[Section]) -> None:
    """Two of the same name would overwrite each other's files."""
    _check_unique(section.name for section in sections)
    _check_unique(table.name for section in sections for table in section.tables)
    _check_unique(figure.name for section in sections for figure in section.figures)


def _check_unique(names: Iterable[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{times} parts of the report are called {name!r}")
