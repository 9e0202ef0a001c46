"""Translation models: tokens, decoder states, log p."""

from knnmt.model.batching import batches_by_tokens
from knnmt.model.runner import Runner
from knnmt.model.runners import check_names, make_runner
from knnmt.model.tap import KEY_LAYERS, Heard, Tap
from knnmt.model.text import Codec
from knnmt.model.translation_model import States, TranslationModel

__all__ = [
    "KEY_LAYERS",
    "Codec",
    "Heard",
    "Runner",
    "States",
    "Tap",
    "TranslationModel",
    "batches_by_tokens",
    "check_names",
    "make_runner",
]
