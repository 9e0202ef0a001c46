"""What the steps of a study run with: models, stores, sessions; each is opened once and kept open while it is used."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knnmt.datastore import Store
from knnmt.decoding import Settings
from knnmt.model import Engine, Purpose, TranslationModel, choose_engine
from knnmt.search import Searcher
from knnmt.study.benchmark import Split
from knnmt.study.step import MissingResult, Result, Step
from knnmt.study.work import Work
from knnmt.training import Features
from knnmt.workflow import Session
from knnmt.workflow.building import NEW_STORE_PRECISION

if TYPE_CHECKING:
    from knnmt.study.steps import Build, Model, View

_OPUS_MT = 75e6  # parameters; rates of work before any is measured are those of opus-mt
_OPEN = 2  # stores with their indexes, and models, that are held at the same time


@dataclass(frozen=True)
class BaseModel:
    """The model under study, and how it is run.

    Attributes:
        name: as the user gave it
        about: everything else that determines what it computes
        dim: size of a key
        parameters: how many it has
    """

    name: str
    about: tuple[tuple[str, str], ...]
    dim: int
    parameters: int

    @property
    def identity(self) -> list[Any]:
        return [list(each) for each in self.about]

    @property
    def fingerprint(self) -> str:
        return dict(self.about)["fingerprint"]

    @property
    def base(self) -> "BaseModel":
        """Itself; of a fine-tuned model the one that it was made from."""
        return self

    @property
    def scale(self) -> float:
        """How much work it is to run, compared with opus-mt."""
        return self.parameters / _OPUS_MT

    @property
    def memory(self) -> float:
        """About how many bytes are needed to run it."""
        return 1e9 + 12 * self.parameters

    @classmethod
    def of(cls, engine: Engine) -> "BaseModel":
        model, codec = engine.model, engine.model.codec
        about = {
            "fingerprint": model.fingerprint,
            "tokenizer": model.tokenizer_fingerprint,
            "key_layer": model.key_layer,
            "source_lang": str(codec.source_lang),
            "target_lang": str(codec.target_lang),
            "source_prefix": codec.source_prefix,
            "engine": engine.name,
            "precision": engine.precision,
        }
        parameters = sum(each.numel() for each in model.hf.parameters())
        return cls(model.name, tuple(about.items()), model.dim, parameters)


class Lab:
    """Opens what steps need.

    Args:
        work: where results are kept
        model: the model under study
        settings: of the beam search
        engine, precision: how models are run; `auto` as in `knnmt build`
    """

    def __init__(
        self,
        work: Work,
        model: TranslationModel,
        settings: Settings,
        engine: str = "auto",
        precision: str = "auto",
    ) -> None:
        self.work = work
        self.engine_name, self.precision = engine, precision
        self.settings = replace(settings, engine=engine, precision=precision)
        self._models: dict[str, TranslationModel] = {"": model}
        self._searchers: dict[str, Searcher] = {}
        self._of_stores: dict[str, dict[tuple[str, int, int], Features]] = {}  # of their own sentences, by memory
        self.base = BaseModel.of(self._engine(model))

    def result(self, step: Step) -> Result:
        """The kept result of a step that has run."""
        found = self.work.find(step)
        if found is None:
            raise MissingResult(step)
        return found

    def run(self, step: Step) -> Result:
        """Run a step whose inputs have run, and keep its result; if another run has done so meanwhile, take that."""
        with self.work.locked(step):
            found = self.work.find(step)
            if found is not None and step.is_there(self):
                return found
            start = time.process_time()
            return self.work.keep(step, step.run(self), time.process_time() - start)

    def model(self, model: "Model") -> TranslationModel:
        """A model, loaded once."""
        if isinstance(model, BaseModel):
            return self._models[""]
        if model.key not in self._models:
            base = self._models[""]
            _make_room(self._models, keep="")
            self._models[model.key] = TranslationModel.load(
                str(model.path(self)),
                device=str(base.device),
                key_layer=base.key_layer,
                source_lang=base.codec.source_lang,
                target_lang=base.codec.target_lang,
                source_prefix=base.codec.source_prefix,
            )
        return self._models[model.key]

    def engine(self, model: "Model") -> Engine:
        """The engine that runs a model over whole targets."""
        return self._engine(self.model(model))

    def _engine(self, model: TranslationModel) -> Engine:
        return choose_engine(model, self.engine_name, self.precision, Purpose.TARGETS, NEW_STORE_PRECISION)

    def store_path(self, build: "Build") -> Path:
        return self.work.path / "stores" / build.name

    def store(self, memory: "Build | View") -> Store:
        """The store that a step has built, or the view of it."""
        return memory.open(self)

    def searcher(self, memory: "Build | View", distances: str = "exact") -> Searcher:
        """The searcher of a store or view, opened once."""
        name = f"{memory.key} {distances}"
        if name not in self._searchers:
            _make_room(self._searchers)
            self._searchers[name] = Searcher(self.store(memory), self.settings.in_memory, distances)
        return self._searchers[name]

    def session(self, memory: "Build | View", split: Split, features: Features, distances: str = "exact") -> Session:
        """A store in use with the pairs of a split, whose features are known."""
        searcher = self.searcher(memory, distances)
        known = {(0, False): features}
        name = f"{memory.key} {distances}"
        if name not in self._of_stores:
            self._of_stores = {name: {}}  # of one memory at a time; they are large
        engine, of_store = self.engine(memory.model), self._of_stores[name]
        return Session(searcher.store, engine, searcher, split.pairs, None, _collected=known, _of_store=of_store)


def _make_room(opened: dict[str, Any], keep: str | None = None) -> None:
    """Close the one that was opened first, so that memory stays bounded."""
    closable = [name for name in opened if name != keep]
    while len(closable) >= _OPEN:
        del opened[closable.pop(0)]
