"""Which search runs a model."""

import warnings
from collections.abc import Sequence
from typing import Protocol

from knnmt.decoding.beam import BeamSearch
from knnmt.decoding.generation import GenerateEngine
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.memory import Memory
from knnmt.decoding.rules import Rules
from knnmt.decoding.settings import GENERATE, Settings
from knnmt.errors import ModelError
from knnmt.model import TranslationModel, make_runner


class Engine(Protocol):
    """A search over a model, with or without a memory."""

    name: str
    model: TranslationModel
    memory: Memory | None

    def decode(self, sources: Sequence[list[int]], settings: Settings) -> list[list[Hypothesis]]:
        """The n best hypotheses of each encoded source, best first."""


def make_engine(
    model: TranslationModel, memory: Memory | None, settings: Settings, made_with: str | None = None
) -> Engine:
    """The engine that is asked for; `generate` where a model asks for what our own search does not know.

    Args:
        made_with: the precision of the store in use
    """
    rules = GENERATE if settings.engine == GENERATE else Rules.of(model)
    if isinstance(rules, str) and settings.skip_above < 1:
        raise ModelError("Only our own search can skip positions, and this model is run by generate; leave it out.")
    if isinstance(rules, str) and settings.precision == "int8":
        raise ModelError("Only the engine onnx computes in int8, and this model is run by generate; leave int8 out.")
    if rules == GENERATE:
        return GenerateEngine(model, memory)
    if isinstance(rules, str):
        warnings.warn(f"The model's generation config asks for {rules}, so its own generate is used.", stacklevel=3)
        return GenerateEngine(model, memory)
    runner = make_runner(model, settings.engine, settings.precision, made_with=made_with)
    return BeamSearch(model, runner, rules, memory)
