"""What came out of a fine-tuning."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Validation:
    """The dev loss after some updates.

    Attributes:
        update: the number of updates before it
        nll: teacher-forced loss in nats per token: no smoothing, no dropout, the end of sentence included
        tokens: target tokens trained on so far
        cpu_seconds: CPU time so far, including this validation
    """

    update: int
    nll: float
    tokens: int
    cpu_seconds: float


@dataclass(frozen=True)
class FinetuneReport:
    """What `finetune` returns and writes to `finetune.json`.

    Attributes:
        model: the model that was fine-tuned
        recipe: as `FinetuneRecipe.to_json` writes it
        stopped: `patience`, `budget` or `updates`
        updates, epochs: how many; epochs that were begun
        tokens: target tokens that were trained on
        cpu_seconds: of loading, training and validating; after a kill, also of the run that was killed, up to what it
            had saved
        history: all validations; the first is of the model as it was
        trained_parameters: how many numbers are trained
        bytes: size of what is trained, the adapters or the whole model, as a file
        train_sentences, dev_sentences: used
        too_long: pairs left out because they exceed the model's maximum, of `train` and `dev`
        run: identifies model, sentences and recipe
    """

    model: str
    recipe: dict[str, Any]
    stopped: str
    updates: int
    epochs: int
    tokens: int
    cpu_seconds: float
    history: list[Validation]
    trained_parameters: int
    bytes: int
    train_sentences: int
    dev_sentences: int
    too_long: dict[str, int]
    run: str

    @property
    def best(self) -> Validation:
        """The validation of the weights that were saved."""
        return best_of(self.history)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"best": asdict(self.best)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "FinetuneReport":
        values = {name: value for name, value in values.items() if name != "best"}
        return cls(**values | {"history": [Validation(**each) for each in values["history"]]})


def best_of(history: list[Validation]) -> Validation:
    """The first validation with the lowest loss."""
    return min(history, key=lambda validation: validation.nll)


def failures(history: list[Validation]) -> int:
    """How many validations were not better than all before them."""
    return sum(later.nll >= best_of(history[:number]).nll for number, later in enumerate(history) if number)
