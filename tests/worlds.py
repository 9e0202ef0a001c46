"""Small worlds for tests: a store made with a family's model from the sentences of families.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families import LANGUAGES
from sentences import SENTENCES

from knnmt.corpus import Pair
from knnmt.datastore import Store, StoreWriter
from knnmt.decoding import record_of
from knnmt.model import TranslationModel
from knnmt.training import trainer


def load(family: str, directory: Path, **options: str) -> TranslationModel:
    source_lang, target_lang = LANGUAGES[family]
    return TranslationModel.load(
        str(directory), source_lang=source_lang, target_lang=target_lang, device="cpu", **options
    )


def make_store(
    path: Path, model: TranslationModel, sentences: Sequence[tuple[str, str]] = tuple(SENTENCES[10:])
) -> Store:
    """A store of the sentences, one after the other, without the workflow that tests of it compare with."""
    sources = model.codec.encode_sources([source for source, _ in sentences])
    targets = model.codec.encode_targets([target for _, target in sentences])
    states = model.teacher_forced(sources, targets)
    pairs = [Pair(source, target, "families", i + 1) for i, (source, target) in enumerate(sentences)]
    with StoreWriter(path, record_of(model)) as writer:
        staged = writer.stage("test")
        staged.append(
            states.keys.numpy(),
            states.tokens.numpy(),
            model.log_p(states).numpy(),
            np.array([len(target) for target in targets]),
            pairs,
            {},
        )
        return writer.commit(writer.plan(staged))


def interrupt_after(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    """Ctrl-C in training after so many updates."""
    update = trainer._Loop._update
    left = iter(range(updates))

    def interrupted(self: Any, alpha: float) -> tuple[float, float]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return update(self, alpha)

    monkeypatch.setattr(trainer._Loop, "_update", interrupted)
