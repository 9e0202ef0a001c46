"""Translation: the memory inside the model, beam search, lines in and out."""

from knnmt.decoding.attach import attach
from knnmt.decoding.beam import BeamSearch
from knnmt.decoding.binding import check_binding, load_model, load_recorded, record_of
from knnmt.decoding.explain import explain
from knnmt.decoding.generation import GenerateEngine
from knnmt.decoding.hypothesis import Hypothesis
from knnmt.decoding.memory import Memory
from knnmt.decoding.settings import Settings
from knnmt.decoding.translator import Translation, Translator

__all__ = [
    "BeamSearch",
    "GenerateEngine",
    "Hypothesis",
    "Memory",
    "Settings",
    "Translation",
    "Translator",
    "attach",
    "check_binding",
    "explain",
    "load_model",
    "load_recorded",
    "record_of",
]
