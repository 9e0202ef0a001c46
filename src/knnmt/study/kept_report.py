"""The report directory of a study: what it is of, and the results that its tables show."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from knnmt.datastore.files import check_name, storage_errors, write_json
from knnmt.datastore.lock import DirectoryLock
from knnmt.errors import StudyError
from knnmt.report import Section, write_report
from knnmt.study.machine import versions
from knnmt.study.setup import Setup
from knnmt.study.step import MissingResult, Result, Step
from knnmt.study.studies import STUDIES, Study

_ABOUT = "study.json"
_RESULTS = "results"
_BEGUN = {"work", "lock", _RESULTS, f"{_ABOUT}.new"}

_UNDECIDED = (
    "± is the standard deviation of a difference in BLEU over 1,000 bootstrap resamples of the test set; a claim that "
    "is within two of them is undecided"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scope:
    """How a study was run in one domain.

    Attributes:
        test_limit: only the first sentences of the test set; None: all
        seeds: of the ablation
    """

    test_limit: int | None
    seeds: int


class KeptReport:
    """A report that several runs add to, also on several machines.

    It keeps the results of steps that tables are made from, which hold no sentences, and is written from them: no store
    and no translation is needed to write it again.
    """

    def __init__(self, path: Path) -> None:
        check_name(path)
        self.path = path
        self._load()

    def _load(self) -> None:
        self._about = self._read(_ABOUT)
        if self._about is not None and not _is_about(self._about):
            raise StudyError(f"{self.path / _ABOUT} is not of a study of this version; give another --out.")
        self._results: dict[str, Result] = {}
        for name in self.studies:
            self._results |= self._read(f"{_RESULTS}/{name}.json") or {}

    @property
    def studies(self) -> dict[str, dict[str, Scope]]:
        """The studies that are in the report, each with its domains."""
        kept = (self._about or {}).get("studies", {})
        return {study: {domain: Scope(**scope) for domain, scope in domains.items()} for study, domains in kept.items()}

    @property
    def domains(self) -> list[str]:
        """The domains of all its studies."""
        return list((self._about or {}).get("domains", {}))

    def find(self, step: Step) -> Result | None:
        """The result of a step, if a table of the report shows it."""
        return self._results.get(step.key)

    def check(self, setup: Setup) -> None:
        """Raise `StudyError` if the directory has a report of another model or benchmark, or something else."""
        about, kept = _about(setup), self._about
        if kept is None:
            if _holds_something_else(self.path):
                raise StudyError(f"{self.path} is there already and is no report of a study; give another --out.")
            return
        if kept["model"] != about["model"]:
            raise StudyError(
                f"{self.path} is a report on the model {kept['name']} ({_in_a_line(kept['model'])}), not on "
                f"{about['name']} ({_in_a_line(about['model'])}); give another --out."
            )
        for name in about["domains"].keys() & kept["domains"].keys():
            if about["domains"][name] != kept["domains"][name]:
                raise StudyError(f"{self.path} is a report on other texts of the domain {name}; give another --out.")
        for what in ("preset", "decoding"):
            if kept[what] != about[what]:
                raise StudyError(f"{self.path} is a report with the {what} {kept[what]}; give another --out.")

    def add(self, study: Study, setup: Setup, result: Callable[[Step], Result]) -> None:
        """Keep what a study shows, in place of what it showed before."""
        shown: dict[str, Result] = {}

        def read(step: Step) -> Result:
            shown[step.key] = result(step)
            return shown[step.key]

        study.section(setup, read)
        with self._locked():
            self._load()
            self.check(setup)
            kept = self.studies
            about = _about(setup)
            about["domains"] = (self._about or {}).get("domains", {}) | about["domains"]
            scopes = {
                name: Scope(domain.test_limit, setup.seeds[name]) for name, domain in setup.benchmark.domains.items()
            }
            if kept.get(study.name, {}).keys() - scopes.keys():  # another run has added domains meanwhile
                scopes = kept[study.name] | scopes
                shown = (self._read(f"{_RESULTS}/{study.name}.json") or {}) | shown
            together = kept | {study.name: scopes}
            about["studies"] = {
                name: {domain: asdict(scope) for domain, scope in together[name].items()}
                for name in dict.fromkeys((*STUDIES, *together))  # whatever order they were run in
                if name in together
            }
            (self.path / _RESULTS).mkdir(exist_ok=True)
            write_json(self.path / _RESULTS / f"{study.name}.json", shown)
            write_json(self.path / _ABOUT, about)
            self._load()

    def write(self, setups: Callable[[], Mapping[str, Setup]]) -> Path:
        """Write page, tables and figures of all its studies; returns the path of the page.

        Args:
            setups: gives the setup of each study that is in the report now
        """
        with self._locked():
            self._load()
            about = self._about
            assert about is not None, "something was added"
            found = setups()
            sections = [
                section
                for name, study in STUDIES.items()
                if name in found and (section := _section(study, found[name], self._result))
            ]
            facts = [
                ("model", about["name"]),
                ("domains", ", ".join(about["domains"])),
                ("settings", f"{about['decoding']}, preset {about['preset']}, {_in_a_line(about['model'])}"),
                ("claims", _UNDECIDED),
                ("versions", ", ".join(f"{name} {number}" for name, number in about["versions"].items())),
            ]
            return write_report(self.path, f"kNN-MT with {about['name']}", facts, sections)

    def _result(self, step: Step) -> Result:
        found = self.find(step)
        if found is None:
            raise MissingResult(step)
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with storage_errors(self.path):
            lock = DirectoryLock(self.path, wait=True)
            try:
                yield
            finally:
                lock.release_and_remove()

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(kept, dict):
                raise ValueError("no JSON object")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise StudyError(f"{path} cannot be read; restore it, or give another --out.") from error
        return kept


def _section(study: Study, setup: Setup, result: Callable[[Step], Result]) -> Section | None:
    try:
        return study.section(setup, result)
    except MissingResult:
        _log.warning("the results of the study %s are of another version of knnmt; run it again.", study.name)
        return None


def _about(setup: Setup) -> dict[str, Any]:
    name = Path(setup.model.name)
    return {
        "name": name.name if name.is_absolute() else setup.model.name,
        "model": dict(setup.model.about),
        "preset": setup.preset.name,
        "decoding": setup.decoding,
        "domains": {
            each.name: [each.train.digest, each.dev.digest, each.test.digest]
            for each in setup.benchmark.domains.values()
        },
        "versions": versions(),
    }


def _holds_something_else(path: Path) -> bool:
    """Whether there is something that no run has made before it has anything to show."""
    return path.exists() and not (path.is_dir() and {each.name for each in path.iterdir()} <= _BEGUN)


def _is_about(kept: Mapping[str, Any]) -> bool:
    """Whether it has what `_about` writes."""
    try:
        scopes = [Scope(**scope) for domains in kept["studies"].values() for scope in domains.values()]
        texts = [list(digests) for digests in kept["domains"].values()]
        known = all(kept[name] for name in ("name", "preset", "decoding", "versions")) and _in_a_line(kept["model"])
        return bool(known and scopes and texts)
    except (KeyError, TypeError, AttributeError):
        return False


def _in_a_line(model: Mapping[str, str]) -> str:
    """What may differ between two models of one name."""
    return f"{model['fingerprint'][:8]}, {model['engine']}, {model['precision']}"
