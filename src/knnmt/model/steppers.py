"""Which engine runs a model's decoder."""

import warnings
from importlib.util import find_spec

from knnmt.errors import ModelError
from knnmt.model.stepping import Stepper, TorchStepper
from knnmt.model.translation_model import TranslationModel

ENGINES = ("auto", "onnx", "torch")
PRECISIONS = ("auto", "float32", "int8")
_PRECISION = "float32"  # of `auto`


def make_stepper(model: TranslationModel, engine: str = "auto", precision: str = "auto") -> Stepper:
    """The engine of that name, the same for the same model; under `auto` torch, with a warning, where onnx fails."""
    trouble = _trouble(model)
    if engine == "torch" or (engine == "auto" and trouble):
        if precision == "int8":
            raise ModelError(f"Only the engine onnx computes in int8. {trouble or 'Leave --engine torch out.'}")
        wanted = ("torch", model.precision)
    elif trouble:
        raise ModelError(trouble)
    else:
        wanted = ("onnx", _PRECISION if precision == "auto" else precision)
    known: dict[tuple[str, str], Stepper] = model.engines
    if wanted not in known:
        known[wanted] = TorchStepper(model) if wanted[0] == "torch" else _onnx(model, engine, wanted[1])
    return known[wanted]


def _trouble(model: TranslationModel) -> str | None:
    """Why onnx cannot run a model, and what to do."""
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return "The engine onnx needs onnx and onnxruntime; install knnmt[fast], or use --engine torch."
    if model.device.type != "cpu" or model.precision != "float32":
        return "The engine onnx runs float32 models on a CPU; use --device cpu, or --engine torch."
    return None


def _onnx(model: TranslationModel, engine: str, precision: str) -> Stepper:
    from knnmt.model.onnx.export import UnknownFamily
    from knnmt.model.onnx.graphs import GraphError, onnx_stepper

    try:
        return onnx_stepper(model, precision)
    except (UnknownFamily, GraphError) as error:
        if engine == "onnx" or precision == "int8":
            raise ModelError(f"{model.name} cannot be run by onnx: {error}; use --engine torch.") from error
        warnings.warn(f"{model.name} cannot be run by onnx ({error}), so torch runs it.", stacklevel=4)
        return TorchStepper(model)
