"""Steps that translate, and that score translations."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from knnmt.decoding import Translator
from knnmt.evaluation import bleu_covariance, comet_scores, score_systems
from knnmt.memory import Memory as Mixer
from knnmt.study.benchmark import Split
from knnmt.study.lab import BaseModel, Lab
from knnmt.study.step import Estimate, Result, Step
from knnmt.study.steps.finetune import Finetune
from knnmt.study.steps.fit import Fit
from knnmt.study.steps.memories import Memory

BLOCK = 500  # lines translated in one step, the most that an interruption loses
Model = BaseModel | Finetune


@dataclass(frozen=True)
class Translate(Step):
    """Translations of some lines, by the model alone or with a fitted combiner and a store.

    Attributes:
        decoding: the signature of the settings of the beam search
        distances: of the search: `exact`, or `code`: those of the index
    """

    kind: ClassVar[str] = "translations"
    seconds_per_unit: ClassVar[float] = 1 / 200

    model: Model
    split: Split
    decoding: str
    memory: Memory | None = None
    fit: Fit | None = None
    distances: str = "exact"

    @property
    def title(self) -> str:
        lines = f"lines {self.split.start + 1}–{self.split.stop}"
        return f"Translate {self.split.name}, {lines}, with {self.fit.method if self.fit else 'the model alone'}"

    def estimate(self) -> Estimate:
        base = self.model.base
        return Estimate(self.split.tokens * base.scale, disk=6 * self.split.tokens, memory=base.memory)

    def run(self, lab: Lab) -> Result:
        mixer = store = None
        settings = replace(lab.settings, split=False)
        if self.memory is not None and self.fit is not None:
            searcher = lab.searcher(self.memory, self.distances)
            mixer, store = Mixer(searcher, self.fit.load(lab), settings.skip_above), searcher.store
        model = lab.model(self.model)
        if settings.precision == "auto" and mixer is None:  # as with a store, which records its precision
            settings = replace(settings, precision=lab.engine(self.model).precision)
        name = self.fit.method if self.fit else "base"
        translator = Translator(model, mixer, settings, method=name, store=store)
        wall, cpu = time.perf_counter(), time.process_time()
        found = list(translator.translations([pair.source for pair in self.split.pairs]))
        return {
            "translations": [each.text for each in found],
            "tokens": sum(each.tokens for each in found),
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - cpu,
            "signature": translator.signature,
        }


@dataclass(frozen=True)
class System:
    """A named system, as the steps that translate a split with it."""

    name: str
    blocks: tuple[Translate, ...]

    @property
    def identity(self) -> list[str]:
        return [self.name, *(block.key for block in self.blocks)]

    @classmethod
    def of(cls, name: str, whole: Translate) -> "System":
        """The system that translates a split, in blocks that a larger split has in common with it."""
        split = whole.split
        starts = range(split.start, split.stop, BLOCK)
        parts = [replace(split, start=start, stop=min(start + BLOCK, split.stop)) for start in starts]
        return cls(name, tuple(replace(whole, split=part) for part in parts))

    def translations(self, lab: Lab) -> list[str]:
        return [line for block in self.blocks for line in lab.result(block)["translations"]]


@dataclass(frozen=True)
class Compare(Step):
    """BLEU and chrF of systems that translate the same split, with intervals, p against a baseline, and covariance."""

    kind: ClassVar[str] = "scores"
    version: ClassVar[int] = 3
    seconds_per_unit: ClassVar[float] = 1 / 130

    systems: tuple[System, ...]
    split: Split
    baseline: str

    @property
    def title(self) -> str:
        return f"Score {len(self.systems)} systems on {self.split.name}"

    def estimate(self) -> Estimate:
        return Estimate(len(self.systems) * len(self.split), disk=1e4)

    def inputs(self) -> Iterator[Step]:
        for system in self.systems:
            yield from system.blocks

    def run(self, lab: Lab) -> Result:
        hypotheses = {system.name: system.translations(lab) for system in self.systems}
        references = [pair.target for pair in self.split.pairs]
        target_lang = self.split.languages[1] if self.split.languages else None
        scores = score_systems(hypotheses, references, self.baseline, target_lang=target_lang)
        covariance = bleu_covariance(hypotheses, references, target_lang=target_lang)
        fits = {system.name: system.blocks[0].fit for system in self.systems}
        results = {system.name: [lab.result(block) for block in system.blocks] for system in self.systems}
        return {
            "sentences": len(references),
            "baseline": self.baseline,
            "systems": {
                name: {
                    "bleu": score.bleu,
                    "bleu_ci": list(score.bleu_ci),
                    "brevity_penalty": score.brevity_penalty,
                    "chrf": score.chrf,
                    "chrf_ci": list(score.chrf_ci),
                    "bleu_p": scores.p_values[name].bleu_p if name in scores.p_values else None,
                    "chrf_p": scores.p_values[name].chrf_p if name in scores.p_values else None,
                    "cpu_seconds": sum(each["cpu_seconds"] for each in results[name]),
                    "signature": results[name][0]["signature"],
                    "seed": fit.seed if (fit := fits[name]) else None,
                    "versions": results[name][0]["versions"],
                    "processors": sorted({each["processor"] for each in results[name]}),
                }
                for name, score in scores.systems.items()
            },
            "names": list(hypotheses),  # of the rows and columns of the next
            "bleu_covariance": [[float(f"{value:.4g}") for value in line] for line in covariance],
            "signatures": scores.signatures,
        }


@dataclass(frozen=True)
class Comet(Step):
    """COMET of systems that translate the same split."""

    kind: ClassVar[str] = "comet"
    seconds_per_unit: ClassVar[float] = 0.2

    systems: tuple[System, ...]
    split: Split

    @property
    def title(self) -> str:
        return f"COMET of {len(self.systems)} systems on {self.split.name}"

    def estimate(self) -> Estimate:
        return Estimate(len(self.systems) * len(self.split), disk=1e4, memory=6e9)

    def inputs(self) -> Iterator[Step]:
        for system in self.systems:
            yield from system.blocks

    def run(self, lab: Lab) -> Result:
        hypotheses = {system.name: system.translations(lab) for system in self.systems}
        sources, references = ([getattr(pair, side) for pair in self.split.pairs] for side in ("source", "target"))
        scores = comet_scores(sources, hypotheses, references)
        return {"systems": scores}
