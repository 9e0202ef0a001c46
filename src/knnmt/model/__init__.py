"""Translation models: tokens, decoder states, logits, and the engines that run them."""

from knnmt.model.batching import batches_by_tokens
from knnmt.model.choose import check_names, choose_engine
from knnmt.model.engine import Decoder, Engine, Purpose, States, StepStates
from knnmt.model.logits import Logits
from knnmt.model.tap import KEY_LAYERS, Heard, Tap
from knnmt.model.text import Codec
from knnmt.model.torch_engine import TorchEngine
from knnmt.model.translation_model import TranslationModel

__all__ = [
    "KEY_LAYERS",
    "Codec",
    "Decoder",
    "Engine",
    "Heard",
    "Logits",
    "Purpose",
    "States",
    "StepStates",
    "Tap",
    "TorchEngine",
    "TranslationModel",
    "batches_by_tokens",
    "check_names",
    "choose_engine",
]
