"""The step that fine-tunes the model: what a user would do instead of kNN-MT."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from knnmt.finetuning import FinetuneRecipe, finetune
from knnmt.study.benchmark import Split
from knnmt.study.lab import BaseModel, Lab
from knnmt.study.step import Estimate, Result, Step

_MODEL = "model"


@dataclass(frozen=True)
class Finetune(Step):
    """The model under study, fine-tuned on a domain's train set.

    Attributes:
        method: `full` or `lora`
        as_long_as: it gets the CPU time that these steps took; without any, it ends when the dev loss stops falling
    """

    kind: ClassVar[str] = "finetune"
    seconds_per_unit: ClassVar[float] = 1 / 150

    model: BaseModel
    train: Split
    dev: Split
    method: str
    as_long_as: tuple[Step, ...] = ()

    @property
    def title(self) -> str:
        until = "for the time of kNN-MT" if self.as_long_as else "until the dev loss stops falling"
        return f"Fine-tune ({self.method}) on {self.train.name} {until}"

    def estimate(self) -> Estimate:
        size = 4 * self.model.parameters
        units = 4 * self.train.tokens * self.model.scale  # four passes over the text
        if self.as_long_as:
            units = sum(step.estimate().units * step.seconds_per_unit for step in self.as_long_as)
            units /= self.seconds_per_unit
        return Estimate(units, disk=4 * size, memory=1e9 + 6 * size)

    @property
    def base(self) -> BaseModel:
        """The model that it starts from."""
        return self.model

    def path(self, lab: Lab) -> Path:
        """The directory of the fine-tuned model."""
        return lab.work.directory(self) / _MODEL

    @property
    def obstacle(self) -> str | None:
        if self.method == "lora" and find_spec("peft") is None:
            return "The study finetune needs peft; run `pip install 'knnmt[finetune]'`, or leave it out with --only."
        return None

    def is_there(self, lab: Lab) -> bool:
        return (self.path(lab) / "config.json").is_file()

    def run(self, lab: Lab) -> Result:
        budget = sum(cpu_seconds(lab.result(step)) for step in self.as_long_as) if self.as_long_as else None
        recipe = FinetuneRecipe(method=self.method, budget_seconds=budget)
        base = lab.model(self.model)
        report = finetune(
            base.name,
            self.train.pairs,
            self.dev.pairs,
            self.path(lab),
            recipe,
            device=str(base.device),
            source_lang=base.codec.source_lang,
            target_lang=base.codec.target_lang,
            source_prefix=base.codec.source_prefix,
        )
        return report.to_json()


def cpu_seconds(result: Result) -> float:
    """The CPU time that a step took; of a store also what interrupted builds took."""
    return float(result.get("cpu_seconds") or result["step_seconds"])
