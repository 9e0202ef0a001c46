"""How networks are trained: every hyperparameter with its default."""

from dataclasses import dataclass, fields
from typing import Any

from knnmt.options import Options, option

_GROUP = "Training"


@dataclass(frozen=True)
class Recipe(Options):
    """Options of training.

    Attributes:
        seed: seed of initial weights, batches and perturbation; the same seed gives the same result
        updates: maximum number of updates
        batch_sentences: sentences per update
        learning_rate, adam_betas, adam_eps: parameters of Adam
        clip: maximum norm of the gradient
        label_smoothing: ε of label smoothing on the mixture
        validate_from, validate_every: updates at which the dev loss is computed
        patience: validations without a better dev loss before training ends
    """

    seed: int = option(1, "The same seed gives the same result.", minimum=0)
    updates: int = option(5000, "Maximum number of updates.", group=_GROUP, minimum=1)
    batch_sentences: int = option(32, "Sentences per update.", group=_GROUP, minimum=1)
    learning_rate: float = option(3e-4, "Learning rate of Adam.", group=_GROUP, above=0)
    adam_betas: tuple[float, float] = option((0.9, 0.98), "Betas of Adam.", group=_GROUP, minimum=0, below=1)
    adam_eps: float = option(1e-8, "Epsilon of Adam.", group=_GROUP, above=0)
    clip: float = option(1.0, "Maximum norm of the gradient.", group=_GROUP, above=0)
    label_smoothing: float = option(0.001, "Label smoothing on the mixture.", group=_GROUP, minimum=0, below=1)
    validate_from: int = option(1000, "Update of the first dev loss.", group=_GROUP, minimum=0)
    validate_every: int = option(100, "Updates between dev losses.", group=_GROUP, minimum=1)
    patience: int = option(30, "Validations without a better dev loss before training ends.", group=_GROUP, minimum=1)

    def to_json(self) -> dict[str, Any]:
        """The fields of `Recipe` only, without those of a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(Recipe)}
