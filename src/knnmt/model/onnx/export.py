"""Write a model's encoder and decoder step as ONNX graphs."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from knnmt.model.onnx import bart_like, t5
from knnmt.model.translation_model import TranslationModel

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
_OPSET = 17


class UnknownFamily(Exception):
    """A family whose decoder step nobody has written as a graph yet."""


def export(model: TranslationModel, directory: Path) -> None:
    """Both graphs in float32, in a directory that exists."""
    hf = model.hf
    family = next((each for each in (bart_like, t5) if hf.config.model_type in each.FAMILIES), None)
    if family is None:
        raise UnknownFamily(f"there is no graph of the family {hf.config.model_type} yet")
    encoder = family.Encoder(hf).eval()
    decoder = family.DecoderStep(hf, model.tap.projection, model.bias, model.key_layer).eval()
    layers, heads = len(decoder.layers), decoder.layers[0].own.heads
    size = decoder.layers[0].own.inner // heads
    sentences, width, source, slots = 2, 3, 5, 4  # any: all four are dynamic
    ids, mask = torch.full((sentences, source), 3), torch.zeros(sentences, 1, 1, source)
    of_layers = [(i, part) for i in range(layers) for part in ("key", "value")]
    cross = {f"cross_{part}_{i}": _cross_axes(part) for i, part in of_layers}
    _write(encoder, (ids, mask), directory / ENCODER, {"ids": ["sentences", "source"], "mask": _MASK}, cross)
    past = torch.zeros(sentences, heads, slots, size)
    key, value = torch.zeros(sentences, heads, size, source), torch.zeros(sentences, heads, source, size)
    cache: dict[str, Axes] = {}
    for i in range(layers):
        cache |= {f"past_key_{i}": _PAST, f"past_value_{i}": _PAST}
        cache |= {f"cross_key_{i}": _cross_axes("key"), f"cross_value_{i}": _cross_axes("value")}
    inputs: dict[str, Axes | None] = {
        "tokens": ["sentences", "width"],
        "position": None,
        "times": ["slots"],
        "ancestors": ["sentences", None, "width", "slots"],
        "mask": _MASK,
    }
    outputs: dict[str, Axes] = {"keys": ["sentences", "width"], "logits": ["sentences", "width"]}
    outputs |= {f"new_{part}_{i}": ["sentences", None, "width"] for i, part in of_layers}
    example = (
        torch.full((sentences, width), 3),
        torch.tensor([1]),
        torch.arange(slots),
        torch.zeros(sentences, 1, width, slots),
        mask,
        *[part for _ in range(layers) for part in (past, past, key, value)],
    )
    _write(decoder, example, directory / DECODER, inputs | cache, outputs)


Axes = list[str | None]  # names of the dynamic ones
_MASK: Axes = ["sentences", None, None, "source"]
_PAST: Axes = ["sentences", None, "slots", None]


def _cross_axes(part: str) -> list[str | None]:
    return ["sentences", None, None, "source"] if part == "key" else ["sentences", None, "source", None]


def _write(
    module: nn.Module, example: tuple[Any, ...], path: Path, inputs: dict[str, Any], outputs: dict[str, Any]
) -> None:
    axes = {
        name: {place: axis for place, axis in enumerate(names) if axis}
        for name, names in (inputs | outputs).items()
        if names
    }
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of the tracer; what comes out is compared with the model
        torch.onnx.export(
            module,
            example,
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )
