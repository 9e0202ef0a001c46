"""Choose the engine that runs a model."""

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from knnmt.errors import ModelError
from knnmt.model.engine import Engine, Purpose
from knnmt.model.sharing import lock_of
from knnmt.model.torch_engine import TorchEngine
from knnmt.model.translation_model import TranslationModel
from knnmt.out_of_memory import is_out_of_memory, not_enough_memory

if TYPE_CHECKING:  # onnxruntime may not be installed
    from knnmt.model.onnx.sessions import Sessions

ENGINES = ("auto", "onnx", "torch")
PRECISIONS = ("auto", "float32", "int8")

# The sessions opened so far for each model, by precision and purpose; None if onnx cannot run it. Engines are cheap and
# created at each call: an engine kept here would keep its model alive, so no model would ever be freed.
_OPENED: "WeakKeyDictionary[TranslationModel, dict[tuple[str, Purpose], Sessions | None]]" = WeakKeyDictionary()


def choose_engine(
    model: TranslationModel,
    engine: str = "auto",
    precision: str = "auto",
    purpose: Purpose = Purpose.STEPS,
    made_with: str | None = None,
) -> Engine:
    """The engine with this name; `auto` is onnx, or torch where onnx is not available or (with a warning) fails.

    Args:
        engine: one of `ENGINES`
        precision: `auto` is the precision that the store was built with, because int8 shifts the keys; torch always
            uses the precision of the model
        purpose: what the engine is checked for
        made_with: the precision that the store was built with
    """
    check_names(engine, precision)
    obstacle = _why_not_onnx(model)
    if engine == "torch" or (engine == "auto" and obstacle):
        if precision == "int8":
            raise ModelError(f"Only the engine onnx computes in int8. {obstacle or 'Leave --engine torch out.'}")
        return TorchEngine(model)
    if obstacle:
        raise ModelError(obstacle)
    default = made_with if made_with in PRECISIONS else "float32"
    wanted = (default if precision == "auto" else precision, purpose)
    required = engine == "onnx" or precision == "int8"
    with lock_of(model.hf):
        opened = _OPENED.setdefault(model, {})
        if wanted not in opened or (required and opened[wanted] is None):
            opened[wanted] = _open_sessions(model, *wanted, required=required)
        sessions = opened[wanted]
    if sessions is None:
        return TorchEngine(model)
    from knnmt.model.onnx.engine import OnnxEngine

    return OnnxEngine(model, sessions)


def check_names(engine: str, precision: str, *more: str) -> None:
    """Refuse an engine or a precision that does not exist; `more` are further engine names that the caller accepts."""
    for what, asked, choices in (("engine", engine, (*ENGINES, *more)), ("precision", precision, PRECISIONS)):
        if asked not in choices:
            raise ModelError(f"There is no {what} {asked}; choose one of {', '.join(choices)}.")


def _why_not_onnx(model: TranslationModel) -> str | None:
    """Why onnx cannot run a model, and what to do; None if it can."""
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return "The engine onnx needs onnx and onnxruntime; install knnmt[fast], or use --engine torch."
    if model.device.type != "cpu" or model.precision != "float32":
        return "The engine onnx runs float32 models on a CPU; use --device cpu, or --engine torch."
    return None


def _open_sessions(model: TranslationModel, precision: str, purpose: Purpose, required: bool) -> "Sessions | None":
    from knnmt.model.onnx.graphs import open_sessions

    try:
        return open_sessions(model, precision, purpose)
    except Exception as error:  # exporter and runtime raise many types; torch runs any model
        if is_out_of_memory(error):  # torch would need even more
            raise not_enough_memory(f"run {model.name} by onnx", also=", use a smaller model") from error
        if required:
            raise ModelError(f"{model.name} cannot be run by onnx: {error}; use --engine torch.") from error
        warnings.warn(f"{model.name} cannot be run by onnx ({error}), so torch runs it.", stacklevel=4)
        return None
