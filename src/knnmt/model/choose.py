"""Which engine runs a model."""

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

# What was opened for each model so far, by precision and purpose; None where onnx cannot run it. Engines are light and
# made at each call: if they were kept here, with the models that they hold, no model would ever be freed.
_OPENED: "WeakKeyDictionary[TranslationModel, dict[tuple[str, Purpose], Sessions | None]]" = WeakKeyDictionary()


def choose_engine(
    model: TranslationModel,
    engine: str = "auto",
    precision: str = "auto",
    purpose: Purpose = Purpose.STEPS,
    made_with: str | None = None,
) -> Engine:
    """The engine of that name; under `auto` torch, with a warning, where onnx fails.

    Args:
        engine: one of `ENGINES`
        precision: `auto` is what the store in use was made with, because int8 shifts the keys; torch has the model's
        made_with: the precision of the store in use
    """
    check_names(engine, precision)
    trouble = _trouble(model)
    if engine == "torch" or (engine == "auto" and trouble):
        if precision == "int8":
            raise ModelError(f"Only the engine onnx computes in int8. {trouble or 'Leave --engine torch out.'}")
        return TorchEngine(model)
    if trouble:
        raise ModelError(trouble)
    usual = made_with if made_with in PRECISIONS else "float32"
    wanted = (usual if precision == "auto" else precision, purpose)
    must = engine == "onnx" or precision == "int8"
    with lock_of(model.hf):
        opened = _OPENED.setdefault(model, {})
        if wanted not in opened or (must and opened[wanted] is None):
            opened[wanted] = _open_sessions(model, *wanted, must=must)
        sessions = opened[wanted]
    if sessions is None:
        return TorchEngine(model)
    from knnmt.model.onnx.engine import OnnxEngine

    return OnnxEngine(model, sessions)


def check_names(engine: str, precision: str, *more: str) -> None:
    """Refuse an engine or a precision that does not exist; `more` are engines of the caller's own."""
    for what, asked, choices in (("engine", engine, (*ENGINES, *more)), ("precision", precision, PRECISIONS)):
        if asked not in choices:
            raise ModelError(f"There is no {what} {asked}; choose one of {', '.join(choices)}.")


def _trouble(model: TranslationModel) -> str | None:
    """Why onnx cannot run a model, and what to do."""
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return "The engine onnx needs onnx and onnxruntime; install knnmt[fast], or use --engine torch."
    if model.device.type != "cpu" or model.precision != "float32":
        return "The engine onnx runs float32 models on a CPU; use --device cpu, or --engine torch."
    return None


def _open_sessions(model: TranslationModel, precision: str, purpose: Purpose, must: bool) -> "Sessions | None":
    from knnmt.model.onnx.graphs import open_sessions

    try:
        return open_sessions(model, precision, purpose)
    except Exception as error:  # an exporter and a runtime fail in ways of their own, and torch runs everything
        if is_out_of_memory(error):  # torch would take more still
            raise not_enough_memory(f"run {model.name} by onnx", also=", use a smaller model") from error
        if must:
            raise ModelError(f"{model.name} cannot be run by onnx: {error}; use --engine torch.") from error
        warnings.warn(f"{model.name} cannot be run by onnx ({error}), so torch runs it.", stacklevel=4)
        return None
