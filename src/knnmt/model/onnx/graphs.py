"""The graphs of a model: exported once, compared with the model, and cached."""

import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor

from knnmt.cache import cache_directory
from knnmt.model.engine import Decoder, Purpose
from knnmt.model.onnx.engine import OnnxEngine
from knnmt.model.onnx.export import GRAPHS, export
from knnmt.model.onnx.quantise import quantise
from knnmt.model.onnx.sessions import Sessions
from knnmt.model.sharing import lock_of
from knnmt.model.torch_engine import TorchEngine
from knnmt.model.translation_model import TranslationModel
from knnmt.out_of_memory import is_out_of_memory

FORMAT = 4  # increased when the graphs change, so that old ones are not used
_UNFINISHED, _LONG_AGO = ".writing-", 24 * 3600  # seconds
_TOLERANCE = {"float32": 1e-3, "int8": 0.3}  # largest mean deviation of logits, in their standard deviations

_EXPORTING = Lock()  # torch's exporter is not thread-safe; a second thread then finds the graphs of the first


class GraphError(Exception):
    """Graphs whose results differ from those of the model."""


def open_sessions(model: TranslationModel, precision: str, purpose: Purpose = Purpose.STEPS) -> Sessions:
    """The graphs of a model, from the cache or exported now; always compared with the model for this purpose."""
    with lock_of(model.hf), _EXPORTING:
        return _cached_or_exported(model, precision, purpose)


def _cached_or_exported(model: TranslationModel, precision: str, purpose: Purpose) -> Sessions:
    home = cache_directory() / f"{model.fingerprint}-{model.key_layer}-{precision}-{FORMAT}"
    if home.is_dir():
        try:
            return _opened(model, home, precision, (purpose,))
        except Exception as error:  # damaged, or of another model with the same fingerprint: export again
            if is_out_of_memory(error):
                raise  # the graphs may be good
    writable = _is_writable(home.parent)
    _remove_unfinished(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent if writable else None, prefix=_UNFINISHED) as scratch:
        made = Path(scratch) / "graphs"
        made.mkdir()
        export(model, made)
        if precision == "int8":
            for name in GRAPHS:
                quantise(made / name)
        sessions = _opened(model, made, precision, tuple(Purpose))
        if not writable:
            return sessions  # all graphs are open, so their files are no longer needed
        try:
            _replace(home, made)
        except OSError:  # another process was faster, or something else has this name
            return sessions
    return _opened(model, home, precision, (purpose,))  # again: another process may have replaced it


def _replace(home: Path, made: Path) -> None:
    """Replace old graphs by new ones. The old are moved to the scratch directory, so no process finds half of them."""
    if home.is_dir():
        with suppress(FileNotFoundError):  # another process does the same
            home.rename(made.with_name("old"))
    made.rename(home)


def _opened(model: TranslationModel, directory: Path, precision: str, purposes: Sequence[Purpose]) -> Sessions:
    sessions = Sessions(directory, precision)
    for purpose in purposes:
        verify(OnnxEngine(model, sessions), _TOLERANCE[precision], purpose)
    return sessions


def _is_writable(directory: Path) -> bool:
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    if directory.is_dir() and os.access(directory, os.W_OK):
        return True
    warnings.warn(
        f"{directory} cannot be written, so the model is exported again each time; set KNNMT_CACHE to a directory that "
        "can.",
        stacklevel=6,
    )
    return False


def _remove_unfinished(directory: Path) -> None:
    """Remove the files of exports that were killed long ago."""
    with suppress(OSError):
        for each in directory.glob(f"{_UNFINISHED}*"):
            if each.stat().st_mtime < time.time() - _LONG_AGO:
                shutil.rmtree(each)


@torch.inference_mode()
def verify(engine: OnnxEngine, tolerance: float, purpose: Purpose = Purpose.STEPS) -> None:
    """Compare the graphs with the model on two random sources; raises GraphError if they differ."""
    model = engine.model
    generator = torch.Generator().manual_seed(0)
    low = min(10, model.vocab_size // 2)
    source_size = model.hf.get_encoder().embed_tokens.num_embeddings

    def draw(size: int, *shape: int) -> Tensor:
        return torch.randint(low, size, shape, generator=generator)

    sources = [[*draw(source_size, length).tolist(), model.codec.eos] for length in (7, 3)]
    prefix = torch.tensor([list(model.codec.prefix)] * 2)
    reference = TorchEngine(model)
    if purpose == Purpose.STEPS:
        _verify_steps(reference.start(sources), engine.start(sources), prefix, draw, model.vocab_size, tolerance)
        return
    given = (*model.pad_sources(sources), torch.cat([prefix, draw(model.vocab_size, 2, 6)], 1))
    theirs, ours = reference.decode_targets(*given), engine.decode_targets(*given)
    _compare("keys", theirs[0], ours[0], tolerance)
    _compare("logits", reference.project(theirs[1][0]).values, engine.project(ours[1][0]).values, tolerance)


def _verify_steps(
    theirs: Decoder, ours: Decoder, tokens: Tensor, draw: Callable[..., Tensor], vocabulary: int, tolerance: float
) -> None:
    """Compare four steps: hypotheses are split, then swapped, then a sentence is dropped."""
    for rows in (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 3, 2]), torch.tensor([3, 2]), None):
        expected, found = theirs.step(tokens), ours.step(tokens)
        _compare("keys", expected.keys, found.keys, tolerance)
        _compare("logits", theirs.project(expected).values, ours.project(found).values, tolerance)
        if rows is not None:
            theirs.select(rows)
            ours.select(rows)
            tokens = draw(vocabulary, len(rows), 1)


def _compare(name: str, expected: Tensor, found: Tensor, tolerance: float) -> None:
    deviation = float((found - expected).abs().mean() / expected.std())
    if not deviation <= tolerance:
        raise GraphError(f"its {name} differ by {deviation:.2g} standard deviations")
