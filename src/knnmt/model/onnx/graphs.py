"""A model's graphs: written once, compared with the model, and kept for the next time."""

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

FORMAT = 4  # raised when graphs change, so that old ones are not used
_UNFINISHED, _LONG_AGO = ".writing-", 24 * 3600  # seconds
_TOLERANCE = {"float32": 1e-3, "int8": 0.3}  # largest mean deviation of logits, in their standard deviations

_EXPORTING = Lock()  # torch's exporter is for one thread at a time, and the second then finds what the first has made


class GraphError(Exception):
    """Graphs that do not say what the model says."""


def open_sessions(model: TranslationModel, precision: str, purpose: Purpose = Purpose.STEPS) -> Sessions:
    """A model's graphs, from the cache or exported now; compared with the model, for the purpose, in any case."""
    with lock_of(model.hf), _EXPORTING:
        return _cached_or_exported(model, precision, purpose)


def _cached_or_exported(model: TranslationModel, precision: str, purpose: Purpose) -> Sessions:
    home = cache_directory() / f"{model.fingerprint}-{model.key_layer}-{precision}-{FORMAT}"
    if home.is_dir():
        try:
            return _opened(model, home, precision, (purpose,))
        except Exception as error:  # damaged, or of another model with the same fingerprint: it is made again
            if is_out_of_memory(error):
                raise  # which says nothing of the graphs
    writable = _is_writable(home.parent)
    _sweep(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent if writable else None, prefix=_UNFINISHED) as scratch:
        made = Path(scratch) / "graphs"
        made.mkdir()
        export(model, made)
        if precision == "int8":
            for name in GRAPHS:
                quantise(made / name)
        sessions = _opened(model, made, precision, tuple(Purpose))
        if not writable:
            return sessions  # all of its graphs are open
        try:
            _replace(home, made)
        except OSError:  # somebody else was quicker, or something else is there
            return sessions
    return _opened(model, home, precision, (purpose,))  # again: somebody may have replaced it since


def _replace(home: Path, made: Path) -> None:
    """Put new graphs in the place of old ones, which go with the scratch directory; nobody finds them half deleted."""
    if home.is_dir():
        with suppress(FileNotFoundError):  # somebody else does the same
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


def _sweep(directory: Path) -> None:
    """Remove what exports left behind that were killed long ago."""
    with suppress(OSError):
        for each in directory.glob(f"{_UNFINISHED}*"):
            if each.stat().st_mtime < time.time() - _LONG_AGO:
                shutil.rmtree(each)


@torch.inference_mode()
def verify(engine: OnnxEngine, tolerance: float, purpose: Purpose = Purpose.STEPS) -> None:
    """Run the graphs and the model beside each other, on two random sources."""
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
    """Hypotheses split, change places, and a sentence leaves."""
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
