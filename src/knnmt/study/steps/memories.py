"""Steps that make what is searched: stores, and views of them."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from knnmt.datastore import Store
from knnmt.datastore.cuts import Cut
from knnmt.study.benchmark import Split
from knnmt.study.lab import BaseModel, Lab
from knnmt.study.step import Estimate, Result, Step
from knnmt.workflow import build_with_report, info, make_view

if TYPE_CHECKING:
    from knnmt.study.steps.finetune import Finetune


def _index_bytes(dim: int) -> float:
    """Per entry: code, id and a share of the centres, in two layouts."""
    return 2 * (dim / 8 + 28)


def _entry_bytes(dim: int) -> float:
    """Per entry: the key, the other columns and a share of its sentence."""
    return 2 * dim + 24


@dataclass(frozen=True)
class Build(Step):
    """A store of a domain's train set.

    Attributes:
        domain: its name
        index: the kind of index
    """

    kind: ClassVar[str] = "build"
    seconds_per_unit: ClassVar[float] = 1 / 1000

    domain: str
    train: Split
    model: "BaseModel | Finetune"
    index: str = "auto"

    @property
    def title(self) -> str:
        return f"Build the store of {self.domain}"

    @property
    def label(self) -> str:
        """For titles."""
        return self.domain

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.domain}-{self.key[:8]}"

    def estimate(self) -> Estimate:
        tokens, base = self.train.tokens, self.model.base
        index = tokens * _index_bytes(base.dim)
        return Estimate(tokens * base.scale, tokens * _entry_bytes(base.dim) + index, base.memory + index)

    def is_there(self, lab: Lab) -> bool:
        return (lab.store_path(self) / "manifest.json").is_file()

    def open(self, lab: Lab) -> Store:
        return Store.open(lab.store_path(self))

    def run(self, lab: Lab) -> Result:
        start = time.process_time()
        report = build_with_report(
            lab.store_path(self),
            list(self.train.files),
            lab.model(self.model),
            origin=self.domain,
            index=self.index,
            engine=lab.engine_name,
            precision=lab.precision,
        )
        described = info(report.store)
        built_now = report.entries - report.resumed
        cpu_seconds = time.process_time() - start
        return {
            "entries": described["entries"],
            "sentences": described["sentences"],
            "too_long": report.too_long,
            "bytes": described["bytes"],
            "search": described["search"],
            "fingerprint": described["fingerprint"],
            # of all entries, though an interrupted build has made some of them before; None if it had made nearly all
            "cpu_seconds": cpu_seconds * described["entries"] / built_now
            if 2 * built_now > described["entries"]
            else None,
        }


@dataclass(frozen=True)
class View(Step):
    """A view of a store: without some entries, or with another index."""

    kind: ClassVar[str] = "view"
    seconds_per_unit: ClassVar[float] = 1 / 20_000

    store: Build
    cut: Cut | None = None
    index: str = "auto"

    @property
    def title(self) -> str:
        return f"View of {self.label}"

    @property
    def label(self) -> str:
        """For titles."""
        return f"{self.domain}: {self.name}"

    @property
    def name(self) -> str:
        """The name of the view in its store."""
        return self.cut.name if self.cut else self.index

    @property
    def model(self) -> "BaseModel | Finetune":
        return self.store.model

    @property
    def domain(self) -> str:
        return self.store.domain

    def estimate(self) -> Estimate:
        tokens = self.store.train.tokens
        index = tokens * _index_bytes(self.model.base.dim)
        return Estimate(tokens, disk=index, memory=1e9 + index)

    def is_there(self, lab: Lab) -> bool:
        return self.store.is_there(lab) and self.name in self.store.open(lab).manifest.views

    def open(self, lab: Lab) -> Store:
        return self.store.open(lab).view(self.name)

    def run(self, lab: Lab) -> Result:
        store = self.store.open(lab)
        view = make_view(store, self.name, self.cut or store.entries, self.index)
        described: dict[str, Any] = info(view)
        return {name: described[name] for name in ("entries", "search", "fingerprint")}


Memory = Build | View
