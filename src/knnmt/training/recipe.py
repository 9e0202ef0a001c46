"""How networks are trained: every hyperparameter with its default."""

from dataclasses import dataclass, fields
from typing import Any

from knnmt.options import Options, option

TRAINING = "Training"  # the heading of its options


@dataclass(frozen=True)
class Recipe(Options):
    """Options of training.

    Attributes:
        seed: seed of initial weights, batches and perturbation; the same seed gives the same result
        updates: maximum number of updates
        batch_sentences: sentences per update
        learning_rate, adam_betas, adam_eps: parameters of Adam
        warmup: updates in which the learning rate rises from 0
        decay: whether it then falls to 0, linearly, at the last update
        clip: maximum norm of the gradient
        label_smoothing: ε of label smoothing on the mixture
        validate_from, validate_every: updates at which the dev loss is computed
        patience: validations without a better dev loss before training ends
        held_out: share of the sentences that only validate; training is then repeated on all sentences, for as many
            updates as were best. 0: all sentences train and validate
    """

    seed: int = option(1, "The same seed gives the same result.", minimum=0)
    updates: int = option(5000, "Maximum number of updates.", group=TRAINING, minimum=1)
    batch_sentences: int = option(32, "Sentences per update.", group=TRAINING, minimum=1)
    learning_rate: float = option(3e-4, "Learning rate of Adam.", group=TRAINING, above=0)
    adam_betas: tuple[float, float] = option((0.9, 0.98), "Betas of Adam.", group=TRAINING, minimum=0, below=1)
    adam_eps: float = option(1e-8, "Epsilon of Adam.", group=TRAINING, above=0)
    warmup: int = option(0, "Updates in which the learning rate rises.", group=TRAINING, minimum=0)
    decay: bool = option(False, "Let the learning rate fall to 0 at the last update.", group=TRAINING)
    clip: float = option(1.0, "Maximum norm of the gradient.", group=TRAINING, above=0)
    label_smoothing: float = option(0.001, "Label smoothing on the mixture.", group=TRAINING, minimum=0, below=1)
    validate_from: int = option(1000, "Update of the first dev loss.", group=TRAINING, minimum=0)
    validate_every: int = option(100, "Updates between dev losses.", group=TRAINING, minimum=1)
    patience: int = option(30, "Validations without a better dev loss before training ends.", group=TRAINING, minimum=1)

    held_out: float = option(
        0.0, "Share of the sentences that only validate, before all train.", group=TRAINING, minimum=0, below=1
    )

    def rate(self, update: int) -> float:
        """The learning rate of an update, counted from 0."""
        rising = min(1.0, (update + 1) / (self.warmup + 1))
        falling = 1 - update / self.updates if self.decay else 1.0
        return self.learning_rate * min(rising, falling)

    def to_json(self) -> dict[str, Any]:
        """The fields of `Recipe` only, without those of a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(Recipe)}
