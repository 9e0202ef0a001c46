"""Steps that work on the positions of whole targets: what is found there, and how a combiner judges it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from knnmt.combiner import CONTEXT, Needs
from knnmt.evaluation import accuracy, lambda_curve
from knnmt.study.benchmark import Split
from knnmt.study.lab import Lab
from knnmt.study.step import Estimate, Result, Step
from knnmt.study.steps.memories import Memory
from knnmt.training import Features, collect_features, load_features, mix_features, save_features

if TYPE_CHECKING:
    from knnmt.study.steps.fit import Fit

_FILE = "features.safetensors"
_NEIGHBOUR_BYTES = 32  # distance, token, id, two log p's and one of the model's highest


@dataclass(frozen=True)
class Collect(Step):
    """What model and search find at every target token of a split.

    Attributes:
        k: number of neighbours, and of the model's highest log p's
        distances: `exact`, or `code`: those of the index
    """

    kind: ClassVar[str] = "features"
    seconds_per_unit: ClassVar[float] = 1 / 500
    context: ClassVar[frozenset[str]] = frozenset()  # what of it is collected

    memory: Memory
    split: Split
    k: int
    distances: str = "exact"

    @property
    def title(self) -> str:
        return f"Neighbours (K = {self.k}) of {self.split.name} in {self.memory.label}"

    @property
    def size(self) -> float:
        """About how many bytes the features take."""
        return self.split.tokens * self.k * _NEIGHBOUR_BYTES

    def estimate(self) -> Estimate:
        base = self.memory.model.base
        return Estimate(self.split.tokens * base.scale, disk=self.size, memory=base.memory + 2 * self.size)

    def is_there(self, lab: Lab) -> bool:
        return (lab.work.directory(self) / _FILE).is_file()

    def load(self, lab: Lab) -> Features:
        return load_features(lab.work.directory(self) / _FILE)

    def run(self, lab: Lab) -> Result:
        searcher = lab.searcher(self.memory, self.distances)
        k = min(self.k, searcher.store.entry_count)
        needs = Needs(k, top=k, context=self.context)
        features = collect_features(lab.engine(self.memory.model), searcher, self.split.pairs, needs)
        sources = np.array([pair.hashes.source for pair in self.split.pairs], np.uint64)
        save_features(features, lab.work.directory(self) / _FILE)
        return {
            "search": searcher.description,
            "store": searcher.store.fingerprint,
            "positions": len(features),
            "skipped": features.skipped,
            "base_nll": features.base_nll,
            "base_accuracy": accuracy(features, None),
            "gold_in_k": features.gold_in_k(k),
            "median_nearest": features.median_nearest,
            "leaked": int(searcher.store.contains(sources, "source").sum()),
        }


@dataclass(frozen=True)
class CollectContext(Collect):
    """The same with the neighbours' context, which takes longer to find."""

    kind: ClassVar[str] = "context"
    context: ClassVar[frozenset[str]] = frozenset(CONTEXT)


@dataclass(frozen=True)
class Mix(Step):
    """Features of the same split in several memories: each sentence is taken from one of them, at random.

    A combiner that is trained on them has seen memories of which parts are missing.
    """

    kind: ClassVar[str] = "mix"
    seconds_per_unit: ClassVar[float] = 1 / 100_000

    parts: tuple[Collect, ...]
    seed: int = 1

    @property
    def title(self) -> str:
        return f"Mix neighbours from {len(self.parts)} memories of {self.split.name}"

    @property
    def memory(self) -> Memory:
        return self.parts[0].memory

    @property
    def split(self) -> Split:
        return self.parts[0].split

    @property
    def k(self) -> int:
        return self.parts[0].k

    @property
    def distances(self) -> str:
        return self.parts[0].distances

    @property
    def size(self) -> float:
        """About how many bytes the features take."""
        return self.parts[0].size

    def estimate(self) -> Estimate:
        memory = 1e9 + 2 * (len(self.parts) + 1) * self.size
        return Estimate(self.split.tokens * len(self.parts), disk=self.size, memory=memory)

    def is_there(self, lab: Lab) -> bool:
        return (lab.work.directory(self) / _FILE).is_file()

    def load(self, lab: Lab) -> Features:
        return load_features(lab.work.directory(self) / _FILE)

    def run(self, lab: Lab) -> Result:
        mixed = mix_features([part.load(lab) for part in self.parts], self.seed)
        save_features(mixed, lab.work.directory(self) / _FILE)
        return {"positions": len(mixed), "seed": self.seed}


@dataclass(frozen=True)
class Judge(Step):
    """How well a fitted combiner predicts every target token of a split."""

    kind: ClassVar[str] = "judge"
    version: ClassVar[int] = 2
    seconds_per_unit: ClassVar[float] = 1 / 50_000

    features: Collect
    fit: "Fit"

    @property
    def title(self) -> str:
        return f"NLL and λ of {self.fit.method} on {self.features.split.name}"

    def estimate(self) -> Estimate:
        return Estimate(self.features.split.tokens, memory=1e9 + 3 * self.features.size)

    def run(self, lab: Lab) -> Result:
        features, combiner = self.features.load(lab), self.fit.load(lab)
        nll, mean_lambda = features.judge(combiner)
        found, memory = lab.result(self.features), self.features.memory
        parts = [f"method:{self.fit.method}", combiner.signature, f"search:{found['search']}"]
        parts += [f"model:{memory.model.base.fingerprint[:8]}", f"store:{found['store'][:8]}"]
        return {
            "signature": "|".join(parts),
            "seed": self.fit.seed,
            "nll": nll,
            "accuracy": accuracy(features, combiner),
            "mean_lambda": mean_lambda,
            "gold_in_k": features.gold_in_k(combiner.k),
            "curve": [point.to_json() for point in lambda_curve(features, combiner)],
        }
