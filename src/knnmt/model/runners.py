"""Which engine runs a model."""

import warnings
from importlib.util import find_spec

from knnmt.errors import ModelError
from knnmt.model.runner import Runner, TorchRunner
from knnmt.model.sharing import lock_of
from knnmt.model.translation_model import TranslationModel
from knnmt.out_of_memory import is_out_of_memory, not_enough_memory

ENGINES = ("auto", "onnx", "torch")
PRECISIONS = ("auto", "float32", "int8")


def make_runner(
    model: TranslationModel,
    engine: str = "auto",
    precision: str = "auto",
    work: str = "steps",
    made_with: str | None = None,
) -> Runner:
    """The engine of that name, the same for the same model; under `auto` torch, with a warning, where onnx fails.

    Args:
        precision: `auto` is what the store in use was made with, because int8 shifts the keys; torch has the model's
        work: `steps` to translate, `passes` for whole targets
        made_with: the precision of the store in use
    """
    check_names(engine, precision)
    trouble = _trouble(model)
    if engine == "torch" or (engine == "auto" and trouble):
        if precision == "int8":
            raise ModelError(f"Only the engine onnx computes in int8. {trouble or 'Leave --engine torch out.'}")
        wanted = ("torch", model.precision, work)
    elif trouble:
        raise ModelError(trouble)
    else:
        usual = made_with if made_with in PRECISIONS else "float32"
        wanted = ("onnx", usual if precision == "auto" else precision, work)
    known: dict[tuple[str, str, str], Runner] = model.engines
    must = engine == "onnx" or precision == "int8"
    with lock_of(model.hf):
        fell_back = wanted in known and known[wanted].name != wanted[0]
        if wanted not in known or (fell_back and must):
            known[wanted] = TorchRunner(model) if wanted[0] == "torch" else _onnx(model, *wanted[1:], must=must)
        return known[wanted]


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


def _onnx(model: TranslationModel, precision: str, work: str, must: bool) -> Runner:
    from knnmt.model.onnx.graphs import onnx_runner

    try:
        return onnx_runner(model, precision, work)
    except Exception as error:  # an exporter and a runtime fail in ways of their own, and torch runs everything
        if is_out_of_memory(error):  # torch would take more still
            raise not_enough_memory(f"run {model.name} by onnx", also=", use a smaller model") from error
        if must:
            raise ModelError(f"{model.name} cannot be run by onnx: {error}; use --engine torch.") from error
        warnings.warn(f"{model.name} cannot be run by onnx ({error}), so torch runs it.", stacklevel=4)
        return TorchRunner(model)
