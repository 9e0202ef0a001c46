"""Small worlds for tests: a store made with a family's model from the sentences of families.py."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from families import LANGUAGES
from sentences import SENTENCES
from torch import Tensor

from knnmt.binding import record_of
from knnmt.combiner import Observation
from knnmt.corpus import Pair
from knnmt.datastore import SourceVectors, Store, StoreWriter
from knnmt.model import TorchEngine, TranslationModel
from knnmt.training import trainer
from knnmt.workflow import FitReport, fit

Result = TypeVar("Result")


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
    engine = TorchEngine(model)
    states = engine.teacher_forced(sources, targets)
    pairs = [Pair(source, target, "families", i + 1) for i, (source, target) in enumerate(sentences)]
    with StoreWriter(path, record_of(engine)) as writer:
        staged = writer.stage("test")
        staged.append(
            states.keys.numpy(),
            states.tokens.numpy(),
            engine.log_p(states).numpy(),
            np.array([len(target) for target in targets]),
            pairs,
            {},
        )
        plan = writer.plan(staged)
        vectors = writer.new_directory("sources", "000001")
        SourceVectors.of(sources).write(vectors)
        return writer.commit(plan, sources={"000001": vectors})


def observed(
    distances: Tensor,
    values: Tensor,
    log_confidence: Tensor,
    log_p_values: Tensor,
    log_p_top: Tensor,
    **context: Tensor,
) -> Observation:
    """An observation whose neighbours are numbered through."""
    ids = torch.arange(values.numel()).view_as(values)
    return Observation(distances, values, log_confidence, log_p_values, ids, log_p_top, **context)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    """Ctrl-C in training after so many updates."""
    update = trainer._Loop._update
    left = iter(range(updates))

    def interrupted(self: Any, alpha: float) -> tuple[float, float]:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return update(self, alpha)

    monkeypatch.setattr(trainer._Loop, "_update", interrupted)


def in_threads(work: Callable[[int], Result], threads: int = 4) -> list[Result]:
    """What `work` gives for the number of each thread; they begin together and change places as often as they can."""
    barrier = Barrier(threads)

    def begin(number: int) -> Result:
        barrier.wait()
        return work(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(begin, range(threads)))
    finally:
        sys.setswitchinterval(interval)


# a short training that still learns something
QUICK: dict[str, Any] = {
    "updates": 60,
    "learning_rate": 0.01,
    "batch_sentences": 6,
    "validate_from": 20,
    "validate_every": 20,
}


def quick_fit(store: Any, corpus: Any, method: str, **options: Any) -> FitReport:
    """Too short to learn much."""
    short: dict[str, Any] = (
        {"decode_best": 0} if method == "vanilla" else {"updates": 20, "validate_from": 10, "validate_every": 5}
    )
    return fit(store, corpus, method, **short, **options)
