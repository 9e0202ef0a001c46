"""The report directory of a study: which model and benchmark it is of, and its sections so far."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from knnmt.datastore.files import check_name, storage_errors, write_json
from knnmt.errors import StudyError
from knnmt.report import Cell, Claim, Figure, Row, Section, Table, write_report
from knnmt.study.machine import versions
from knnmt.study.setup import Setup

_ABOUT = "study.json"
_SECTIONS = "sections"


class KeptReport:
    """Adds sections to a report, and writes it anew with all of them.

    Each part of a study has a file, so that a report can be made in several runs, also on several machines.
    """

    def __init__(self, path: Path) -> None:
        check_name(path)
        self.path = path

    def open(self, setup: Setup) -> None:
        """Raise `StudyError` if the directory has a report of another model or benchmark, or something else."""
        about, kept = _about(setup), self._kept()
        if kept is None:
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise StudyError(f"{self.path} is there already and is no report of a study; give another --out.")
            return
        if kept["model"] != about["model"]:
            raise StudyError(f"{self.path} is a report on another model, {kept['name']}; give another --out.")
        for name in about["domains"].keys() & kept["domains"].keys():
            if about["domains"][name] != kept["domains"][name]:
                raise StudyError(f"{self.path} is a report on other texts of the domain {name}; give another --out.")
        if kept["preset"] != about["preset"]:
            raise StudyError(f"{self.path} is a report with the preset {kept['preset']}; give another --out.")

    def add(self, setup: Setup, parts: Mapping[str, Section]) -> None:
        """Keep these parts, in place of earlier ones of the same names."""
        about, kept = _about(setup), self._kept()
        if kept is not None:
            about["domains"] = kept["domains"] | about["domains"]
        with storage_errors(self.path):
            (self.path / _SECTIONS).mkdir(parents=True, exist_ok=True)
            write_json(self.path / _ABOUT, about)
            for name, section in parts.items():
                write_json(self.path / _SECTIONS / f"{name}.json", asdict(section))

    def write(self, order: list[str]) -> Path:
        """Write page and tables of everything that was kept; returns the path of the page.

        Args:
            order: names of sections, in the order of the page
        """
        about = self._kept()
        assert about is not None, "something was added"
        sections: dict[str, Section] = {}
        for path in sorted((self.path / _SECTIONS).glob("*.json")):
            part = _section(json.loads(path.read_text(encoding="utf-8")))
            sections[part.name] = _joined(sections[part.name], part) if part.name in sections else part
        ordered = sorted(sections.values(), key=lambda section: order.index(section.name))
        facts = [
            ("model", about["name"]),
            ("domains", ", ".join(about["domains"])),
            ("settings", f"{about['decoding']}, preset {about['preset']}, {about['precision']}"),
            ("versions", ", ".join(f"{name} {number}" for name, number in about["versions"].items())),
        ]
        return write_report(self.path, f"kNN-MT with {about['name']}", facts, ordered)

    def _kept(self) -> dict[str, Any] | None:
        path = self.path / _ABOUT
        try:
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise StudyError(f"{path} cannot be read; restore it, or give another --out.") from error
        return kept


def _about(setup: Setup) -> dict[str, Any]:
    model = dict(setup.model.about)
    name = Path(setup.model.name)
    return {
        "name": name.name if name.is_absolute() else setup.model.name,
        "model": model,
        "precision": model["precision"],
        "preset": setup.preset.name,
        "decoding": setup.decoding,
        "domains": {
            each.name: [each.train.digest, each.dev.digest, each.test.digest]
            for each in setup.benchmark.domains.values()
        },
        "versions": versions(),
    }


def _joined(first: Section, second: Section) -> Section:
    return replace(
        first,
        tables=[*first.tables, *second.tables],
        figures=[*first.figures, *second.figures],
        claims=[*first.claims, *second.claims],
    )


def _section(value: dict[str, Any]) -> Section:
    """The inverse of `asdict`."""
    tables = [
        Table(
            **each | {"rows": [Row(**row | {"cells": [Cell(**cell) for cell in row["cells"]]}) for row in each["rows"]]}
        )
        for each in value["tables"]
    ]
    figures = [Figure(**each | {"svg": Markup(each["svg"])}) for each in value["figures"]]
    return Section(
        **value | {"tables": tables, "figures": figures, "claims": [Claim(**each) for each in value["claims"]]}
    )
