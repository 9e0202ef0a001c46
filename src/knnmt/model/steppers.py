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
    """The engine of that name, the same for the same model; torch, with a warning, where it cannot be had."""
    known: dict[tuple[str, str], Stepper] = model.engines
    if (engine, precision) not in known:
        known[engine, precision] = _make(model, engine, precision)
    return known[engine, precision]


def _make(model: TranslationModel, engine: str, precision: str) -> Stepper:
    if engine == "torch" or (engine == "auto" and not _can_run_onnx(model)):
        if precision == "int8":
            raise ModelError("Only the engine onnx computes in int8; install knnmt[fast] and leave --engine out.")
        return TorchStepper(model)
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        raise ModelError("The engine onnx needs onnx and onnxruntime; install knnmt[fast], or use --engine torch.")
    from knnmt.model.onnx.export import UnknownFamily
    from knnmt.model.onnx.graphs import GraphError, onnx_stepper

    try:
        return onnx_stepper(model, _PRECISION if precision == "auto" else precision)
    except (UnknownFamily, GraphError, OSError) as error:
        warnings.warn(f"{model.name} cannot be run by onnx ({error}), so torch runs it.", stacklevel=4)
        return TorchStepper(model)


def _can_run_onnx(model: TranslationModel) -> bool:
    installed = find_spec("onnxruntime") is not None and find_spec("onnx") is not None
    return installed and model.device.type == "cpu" and model.precision == "float32"
