"""Translation: beam search, `generate`, `attach` for a model of the user's own, and `Translator` for lines of text."""

from knnmt.decoding.attaching import attach
from knnmt.decoding.beam import BeamSearch
from knnmt.decoding.explaining import explain
from knnmt.decoding.generation import GenerateSearch
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.settings import Settings
from knnmt.decoding.strategy import Strategy, choose_strategy
from knnmt.decoding.translation import Translation
from knnmt.decoding.translator import Translator

__all__ = [
    "BeamSearch",
    "GenerateSearch",
    "Hypothesis",
    "Settings",
    "Strategy",
    "Translation",
    "Translator",
    "attach",
    "choose_strategy",
    "explain",
]
