"""Fine-tuning of the families' models on a few sentences."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import LANGUAGES
from sentences import SENTENCES

from knnmt.corpus import Pair
from knnmt.finetuning import FinetuneRecipe, FinetuneReport, finetune
from knnmt.finetuning.trainer import Trainer

PAIRS = [Pair(source, target, "sentences", line) for line, (source, target) in enumerate(SENTENCES, start=1)]
QUICK: dict[str, Any] = {
    "learning_rate": 0.003,
    "warmup": 2,
    "batch_tokens": 150,
    "validate_every": 5,
    "max_updates": 10,
}


Tune = Callable[..., FinetuneReport]
KillAt = Callable[[int], None]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where `tune` writes to."""
    return tmp_path / "tuned"


@pytest.fixture
def tune(family_directory: Callable[[str], Path], out: Path) -> Tune:
    """Fine-tunes a family's model on sentences that it has not learnt, with `QUICK` and other options."""

    def run(
        family: str = "marian",
        to: Path = out,
        train: list[Pair] = PAIRS[16:],
        dev: list[Pair] = PAIRS[30:],
        **options: Any,
    ) -> FinetuneReport:
        source_lang, target_lang = LANGUAGES[family]
        recipe = FinetuneRecipe(**QUICK | options)
        model = family_directory(family)
        return finetune(model, train, dev, to, recipe, device="cpu", source_lang=source_lang, target_lang=target_lang)

    return run


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> KillAt:
    """Interrupts a run before the update with this number, once."""

    def arrange(number: int) -> None:
        update = Trainer._update
        left = [number]

        def killed(self: Trainer, sources: list[list[int]], targets: list[list[int]]) -> int:
            if left == [self.progress.updates]:
                left.clear()
                raise KeyboardInterrupt
            return update(self, sources, targets)

        monkeypatch.setattr(Trainer, "_update", killed)

    return arrange
