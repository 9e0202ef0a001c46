"""How a model is fine-tuned: every hyperparameter with its default."""

from dataclasses import asdict, dataclass
from typing import Any

from knnmt.options import Options, option

METHODS = ("full", "lora")

_RATES = {"full": 1e-4, "lora": 1e-3}


@dataclass(frozen=True)
class FinetuneRecipe(Options):
    """Options of fine-tuning.

    The defaults suit models in the size of opus-mt (75 million parameters) on a CPU, where a budget of minutes has room
    for only some hundred small updates:

    - A batch of 1,024 tokens is a dozen sentences. Per token it costs hardly more than a larger one.
    - The learning rate rises for ten updates. Then it stays, and halves after each validation without a better dev
      loss. So the length of a run need not be known beforehand, and a run with a budget is the beginning of a run
      without one.
    - The rates are higher than the usual 2e-5 to 5e-5 (LoRA: 2e-4 to 5e-4), with which little happens in minutes. After
      25,000 target tokens of the French Koran, some four CPU-minutes, the dev loss of opus-mt-fr-en was 2.17 → 1.88 at
      3e-5, 1.85 at 5e-5 and 1.83 at 1e-4; with LoRA 1.92 at 5e-4 and 1.90 at 2e-3. The halving gives lower rates later.
    - Dropout is the model's own. Label smoothing is that with which Marian, FSMT, M2M100 and NLLB were trained.
    - A validation takes about 5 % of the time of the updates before it, however large the dev set is.

    Attributes:
        method: `full` trains all weights, `lora` low-rank adapters of the linear maps in the layers
        learning_rate: of Adam; None: one that suits the method
        warmup: updates in which the learning rate rises linearly
        clip: maximum norm of the gradient
        label_smoothing: ε
        batch_tokens: tokens per update, source and target together, padding included
        lora_rank, lora_alpha: of the adapters; their product is multiplied by alpha / rank
        validate_every: updates between dev losses
        dev_tokens: target tokens of the dev pairs that are used; of more, a random part with so many
        patience: validations without a better dev loss before training ends
        max_updates: maximum number of updates; None: no maximum
        budget_seconds: CPU time after which training ends, including loading and validations; None: no maximum
        seed: of adapters, batches and dropout; the same seed gives the same result
    """

    method: str = option("full", "Train all weights, or low-rank adapters.", choices=METHODS)
    learning_rate: float | None = option(None, "Learning rate of Adam.", above=0)
    warmup: int = option(10, "Updates in which the learning rate rises.", minimum=0)
    clip: float = option(1.0, "Maximum norm of the gradient.", above=0)
    label_smoothing: float = option(0.1, "Label smoothing.", minimum=0, below=1)
    batch_tokens: int = option(1024, "Tokens per update, source and target together.", minimum=1)
    lora_rank: int = option(16, "Rank of the adapters.", minimum=1)
    lora_alpha: int = option(32, "Scale of the adapters, times their rank.", minimum=1)
    validate_every: int = option(100, "Updates between dev losses.", minimum=1)
    dev_tokens: int = option(5000, "Target tokens of the dev pairs that are used.", minimum=1)
    patience: int = option(5, "Validations without a better dev loss before training ends.", minimum=1)
    max_updates: int | None = option(None, "Maximum number of updates.", minimum=1)
    budget_seconds: float | None = option(None, "CPU time after which training ends.", above=0)
    seed: int = option(1, "The same seed gives the same result.", minimum=0)

    @property
    def rate(self) -> float:
        """The learning rate after the warm-up."""
        return _RATES[self.method] if self.learning_rate is None else self.learning_rate

    def rate_at(self, update: int, failures: int = 0) -> float:
        """The learning rate of an update, the first being number 0, after validations without a better dev loss."""
        return self.rate * min(1.0, (update + 1) / (self.warmup + 1)) * 0.5**failures

    def to_json(self) -> dict[str, Any]:
        """All fields, with the learning rate that is used."""
        return asdict(self) | {"learning_rate": self.rate}

    def course(self) -> dict[str, Any]:
        """The fields that decide what an update does and what is compared, not when training ends."""
        ends = ("patience", "max_updates", "budget_seconds")
        return {name: value for name, value in self.to_json().items() if name not in ends}
