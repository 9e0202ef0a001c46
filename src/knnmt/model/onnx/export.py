"""Export the parts of a model as ONNX graphs."""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.model.onnx import bart_like, t5
from knnmt.model.onnx.decoder import DecoderStep, DecoderTargets
from knnmt.model.translation_model import TranslationModel

# Token vectors go in and hidden states come out, so that only the projection has a weight for the vocabulary.
# Each graph has its own directory: above 2 GB the weights are separate files, whose names are the same for each graph.
GRAPHS = ENCODER, STEP, TARGETS, PROJECTION = tuple(
    f"{name}/graph.onnx" for name in ("encoder", "step", "pass", "projection")
)
_OPSET = 17


class UnknownFamily(Exception):
    """A family that has no graph yet."""


def export(model: TranslationModel, directory: Path) -> None:
    """Write all graphs in float32 into an existing directory."""
    hf = model.hf
    family = next((each for each in (bart_like, t5) if hf.config.model_type in each.FAMILIES), None)
    if family is None:
        raise UnknownFamily(f"there is no graph of the family {hf.config.model_type} yet")
    decoder = family.Decoder(hf)
    layers, heads, inner = len(decoder.layers), decoder.layers[0].own.heads, decoder.layers[0].own.inner
    sentences, width, source, slots = 2, 3, 5, 4  # arbitrary sizes: all four axes are dynamic
    read, written = torch.zeros(sentences, source, model.dim), torch.zeros(sentences, width, model.dim)
    mask = torch.zeros(sentences, 1, 1, source)
    key = torch.zeros(sentences, heads, inner // heads, source)
    past = torch.zeros(sentences, heads, slots, inner // heads)
    parts = [(part, i) for i in range(layers) for part in ("key", "value")]
    cross_axes: dict[str, Axes] = {
        f"cross_{part}_{i}": ["sentences", None, *([None, "source"] if part == "key" else ["source"])]
        for part, i in parts
    }
    cross = [key, key.transpose(2, 3)] * layers
    cache = [past] * len(parts) + cross
    masked: dict[str, Axes] = {"mask": ["sentences", None, None, "source"]}
    states: dict[str, Axes] = {"keys": ["sentences", "width"], "hidden": ["sentences", "width"]}
    _write(
        family.Encoder(hf),
        (read, mask),
        directory / ENCODER,
        {"vectors": ["sentences", "source"], **masked},
        cross_axes,
    )
    step_axes: dict[str, Axes] = {
        "vectors": ["sentences", "width"],
        "position": [],
        "times": ["slots"],
        "ancestors": ["sentences", None, "width", "slots"],
        **masked,
        **{f"past_{part}_{i}": ["sentences", None, "slots"] for part, i in parts},
        **cross_axes,
    }
    _write(
        DecoderStep(decoder, model.key_layer),
        (written, torch.tensor([1]), torch.arange(slots), torch.zeros(sentences, 1, width, slots), mask, *cache),
        directory / STEP,
        step_axes,
        states | {f"new_{part}_{i}": ["sentences", None, "width"] for part, i in parts},
    )
    _write(
        DecoderTargets(decoder, model.key_layer),
        (written, mask, *cross),
        directory / TARGETS,
        {"vectors": ["sentences", "width"], **masked, **cross_axes},
        states,
    )
    _write(
        _Projection(model),
        (written,),
        directory / PROJECTION,
        {"hidden": ["sentences", "width"]},
        {"logits": ["sentences", "width"]},
    )


class _Projection(nn.Module):
    """The output projection without its bias, which `OnnxEngine.project_into` adds in one pass with the scales."""

    def __init__(self, model: TranslationModel) -> None:
        super().__init__()
        self.weight = model.tap.projection.weight

    def forward(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.weight)


Axes = list[str | None]  # names of dynamic axes; None for fixed ones


def _write(
    module: nn.Module, example: tuple[Any, ...], path: Path, inputs: dict[str, Axes], outputs: dict[str, Axes]
) -> None:
    axes = {
        name: {dimension: axis for dimension, axis in enumerate(names) if axis}
        for name, names in (inputs | outputs).items()
        if names
    }
    path.parent.mkdir()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # from the tracer; the result is compared with the model later
        torch.onnx.export(
            module.eval(),
            example,
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )
