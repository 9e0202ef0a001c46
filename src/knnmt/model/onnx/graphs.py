"""A model's graphs: written once, compared with the model, and kept for the next time."""

import logging
import os
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import torch

from knnmt.model.onnx.export import DECODER, ENCODER, export
from knnmt.model.onnx.stepper import OnnxStepper
from knnmt.model.stepping import TorchStepper
from knnmt.model.translation_model import TranslationModel

FORMAT = 1  # raised when graphs change, so that old ones are not used
_TOLERANCE = {"float32": 1e-3, "int8": 0.3}  # largest mean deviation of logits, in their standard deviations


class GraphError(Exception):
    """Graphs that do not say what the model says."""


def onnx_stepper(model: TranslationModel, precision: str) -> OnnxStepper:
    """The model's engine, from the cache or exported now; compared with the model in any case."""
    home = cache_directory() / f"{model.fingerprint}-{model.key_layer}-{precision}-{FORMAT}"
    try:
        return _opened(model, home, precision)
    except Exception:  # not there, damaged, or of a model with the same fingerprint: it is made again
        shutil.rmtree(home, ignore_errors=True)
    writable = _is_writable(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent if writable else None, prefix=".writing-") as scratch:
        made = Path(scratch) / "graphs"
        made.mkdir()
        export(model, made)
        if precision == "int8":
            _quantise(made)
        stepper = _opened(model, made, precision)
        if writable:
            with suppress(OSError):  # somebody else was quicker
                made.rename(home)
        return stepper


def _opened(model: TranslationModel, directory: Path, precision: str) -> OnnxStepper:
    stepper = OnnxStepper(model, directory, precision)
    verify(model, stepper, _TOLERANCE[precision])
    return stepper


def _is_writable(directory: Path) -> bool:
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    if os.access(directory, os.W_OK):
        return True
    warnings.warn(
        f"{directory} cannot be written, so the model is exported anew each time; set KNNMT_CACHE to a directory that "
        "can.",
        stacklevel=5,
    )
    return False


def cache_directory() -> Path:
    """$KNNMT_CACHE, or where programs keep what can be made again."""
    own = os.environ.get("KNNMT_CACHE")
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(own) if own else Path(usual) / "knnmt"


def _quantise(directory: Path) -> None:
    """Weights in 8 bits, activations as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().disabled, kept = True, logging.getLogger().disabled  # it recommends things to the root logger
    try:
        for name in (ENCODER, DECODER):
            plain = directory / f"plain-{name}"
            (directory / name).rename(plain)
            # Products of 8 bits by 8 saturate without VNNI, unless weights keep to 7.
            quantize_dynamic(
                plain,
                directory / name,
                op_types_to_quantize=["MatMul"],
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
            )
            plain.unlink()
    finally:
        logging.getLogger().disabled = kept


@torch.inference_mode()
def verify(model: TranslationModel, stepper: OnnxStepper, tolerance: float) -> None:
    """Run the graphs and the model beside each other: two sources, hypotheses that split and one that leaves."""
    generator = torch.Generator().manual_seed(0)
    low, high = min(10, model.vocab_size // 2), model.vocab_size
    source_size = model.hf.get_encoder().embed_tokens.num_embeddings
    sources = [
        [*torch.randint(low, source_size, (length,), generator=generator).tolist(), model.codec.eos]
        for length in (7, 3)
    ]
    decoders = stepper.start(sources), TorchStepper(model).start(sources)
    tokens = torch.tensor([list(model.codec.prefix)] * 2)
    for rows in (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 3, 2]), torch.tensor([3, 2]), None):
        ours, theirs = (decoder.step(tokens) for decoder in decoders)
        for name, found, expected in (("state", ours.keys, theirs.keys), ("logits", ours.logits, theirs.logits)):
            deviation = float((found - expected).abs().mean() / expected.std())
            if not deviation <= tolerance:
                raise GraphError(f"its {name} differ by {deviation:.2g} standard deviations")
        if rows is not None:
            for decoder in decoders:
                decoder.select(rows)
            tokens = torch.randint(low, high, (len(rows), 1), generator=generator)
