"""The choice of a search: our own beam search, or transformers' `generate`."""

import warnings
from collections.abc import Sequence
from typing import Protocol

from knnmt.decoding.beam import BeamSearch
from knnmt.decoding.generation import GenerateSearch
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.rules import Rules
from knnmt.decoding.settings import GENERATE, Settings
from knnmt.errors import ModelError
from knnmt.memory import Memory
from knnmt.model import Engine, TranslationModel, choose_engine


class Strategy(Protocol):
    """A search for translations, with or without a memory.

    Attributes:
        name: the name in signatures
        engine: what runs the model, also for explanations
    """

    name: str
    engine: Engine
    memory: Memory | None

    def decode(self, sources: Sequence[list[int]], settings: Settings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each encoded source, best first."""


def choose_strategy(
    model: TranslationModel | Engine, memory: Memory | None, settings: Settings, made_with: str | None = None
) -> Strategy:
    """The strategy that the settings ask for; `generate` where the model needs what our own search does not support.

    Args:
        model: an engine, or a model, for which the settings choose an engine
        made_with: the precision of the store in use
    """
    engine = model if isinstance(model, Engine) else None
    model = model.model if isinstance(model, Engine) else model
    rules = GENERATE if settings.engine == GENERATE else Rules.of(model)
    if isinstance(rules, str):
        if (memory is not None and memory.skip_above < 1) or settings.skip_above < 1:
            raise ModelError("Only our own search can skip positions, and this model is run by generate; leave it out.")
        if settings.precision == "int8":
            raise ModelError(
                "Only the engine onnx computes in int8, not generate, which runs this model; leave int8 out."
            )
        if rules != GENERATE:
            warnings.warn(f"The model's generation config asks for {rules}, so its own generate is used.", stacklevel=4)
        return GenerateSearch(model, memory)
    engine = engine or choose_engine(model, settings.engine, settings.precision, made_with=made_with)
    return BeamSearch(engine, rules, memory)
