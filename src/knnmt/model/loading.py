"""Load a Hugging Face model by name: a directory comes first, then a bundled model, then the hub."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from knnmt.errors import ModelError
from knnmt.out_of_memory import is_out_of_memory, not_enough_memory

_PACKAGE = Path(__file__).resolve().parents[1]
# A wheel has the models in the package, a checkout has them next to `src`.
_BUNDLES = (_PACKAGE / "models", _PACKAGE.parents[1] / "models")


def resolve(name: str) -> tuple[str, bool]:
    """The path or hub id that `name` stands for, and whether it is local."""
    if Path(name).is_dir():
        if not _is_utf8(name):
            raise ModelError(f"{name!a} is not a UTF-8 name, which tokenizers need; rename the directory.")
        if not (Path(name) / "config.json").is_file():
            raise ModelError(
                f"{name} is not a Hugging Face model directory (it has no config.json); "
                "give a directory saved with save_pretrained, a hub id or de-en-small."
            )
        return name, True
    for bundle in _BUNDLES:
        if (bundle / name / "config.json").is_file():
            return str(bundle / name), True
    if Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ModelError(f"There is no model directory {name}; check the path.")
    return name, False


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # Python represents bytes of a path that are not UTF-8 as lone surrogates
        return False
    return True


def load_pretrained(name: str, device: str = "auto") -> tuple[Any, Any]:
    """The model in float32, ready for inference on `device`, and its tokenizer."""
    path, local = resolve(name)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(path, local_files_only=local)
            if not config.is_encoder_decoder:
                raise ModelError(
                    f"{name} is a {config.model_type} model without an encoder; "
                    "give an encoder-decoder translation model such as Marian, NLLB or T5."
                )
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local)
            # always float32: half precision is slow on a CPU, and keys must not depend on how the model was saved
            model = AutoModelForSeq2SeqLM.from_pretrained(
                path, dtype=torch.float32, weights_only=True, local_files_only=local
            )
    except ModelError:
        raise
    except Exception as error:  # transformers and its dependencies raise many types
        if is_out_of_memory(error):
            raise not_enough_memory(f"load the model {name}", also=", use a smaller model") from error
        where = "could not be read" if local else "is no directory here and could not be fetched from the hub"
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")[:300]  # transformers adds a page of advice
        raise ModelError(
            f"The model {name} {where} ({reason}); check its name, or give a complete directory."
        ) from error
    return _on_device(model, device).eval(), tokenizer


def _on_device(model: Any, device: str) -> Any:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:  # unknown to torch, or CUDA is missing
        if is_out_of_memory(error):
            raise not_enough_memory(f"hold the model on {device}", also=", use --device cpu") from error
        raise ModelError(f"There is no device {device} here; use auto, cpu, cuda or cuda:0.") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bar of transformers and the hub client's log of retries; knnmt reports one sentence."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
