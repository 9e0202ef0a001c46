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

from knnmt.cache import cache_directory
from knnmt.model.onnx.export import GRAPHS, export
from knnmt.model.onnx.quantise import quantise
from knnmt.model.onnx.runner import OnnxRunner
from knnmt.model.runner import WORK, Decoder, TorchRunner
from knnmt.model.sharing import lock_of
from knnmt.model.translation_model import TranslationModel
from knnmt.out_of_memory import is_out_of_memory

FORMAT = 4  # raised when graphs change, so that old ones are not used
_UNFINISHED, _LONG_AGO = ".writing-", 24 * 3600  # seconds
_TOLERANCE = {"float32": 1e-3, "int8": 0.3}  # largest mean deviation of logits, in their standard deviations


_MAKING = Lock()  # torch's exporter is for one thread at a time, and the second then finds what the first has made


class GraphError(Exception):
    """Graphs that do not say what the model says."""


def onnx_runner(model: TranslationModel, precision: str, work: str = "steps") -> OnnxRunner:
    """What runs the model, from the cache or exported now; compared with the model, for its work, in any case."""
    with lock_of(model.hf), _MAKING:
        return _kept_or_made(model, precision, work)


def _kept_or_made(model: TranslationModel, precision: str, work: str) -> OnnxRunner:
    home = cache_directory() / f"{model.fingerprint}-{model.key_layer}-{precision}-{FORMAT}"
    if home.is_dir():
        try:
            return _opened(model, home, precision, (work,))
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
        runner = _opened(model, made, precision, WORK)
        if not writable:
            return runner  # all of its graphs are open
        try:
            _replace(home, made)
        except OSError:  # somebody else was quicker, or something else is there
            return runner
    return _opened(model, home, precision, (work,))  # again: somebody may have replaced it since


def _replace(home: Path, made: Path) -> None:
    """Put new graphs in the place of old ones, which go with the scratch directory; nobody finds them half deleted."""
    if home.is_dir():
        with suppress(FileNotFoundError):  # somebody else does the same
            home.rename(made.with_name("old"))
    made.rename(home)


def _opened(model: TranslationModel, directory: Path, precision: str, work: Sequence[str]) -> OnnxRunner:
    runner = OnnxRunner(model, directory, precision)
    for each in work:
        verify(model, runner, _TOLERANCE[precision], each)
    return runner


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
def verify(model: TranslationModel, runner: OnnxRunner, tolerance: float, work: str = "steps") -> None:
    """Run the graphs and the model beside each other, on two random sources."""
    generator = torch.Generator().manual_seed(0)
    low = min(10, model.vocab_size // 2)
    source_size = model.hf.get_encoder().embed_tokens.num_embeddings

    def tokens(size: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, size, shape, generator=generator)

    sources = [[*tokens(source_size, length).tolist(), model.codec.eos] for length in (7, 3)]
    prefix = torch.tensor([list(model.codec.prefix)] * 2)
    if work == "steps":
        _verify_steps(TorchRunner(model).start(sources), runner.start(sources), prefix, tokens, model, tolerance)
        return
    given = (*model.pad_sources(sources), torch.cat([prefix, tokens(model.vocab_size, 2, 6)], 1))
    expected = TorchRunner(model)
    theirs, ours = expected.force(*given), runner.force(*given)
    _compare("keys", theirs[0], ours[0], tolerance)
    _compare("logits", expected.logits(theirs[1][0]), runner.logits(ours[1][0]), tolerance)


def _verify_steps(
    theirs: Decoder,
    ours: Decoder,
    tokens: torch.Tensor,
    draw: Callable[..., torch.Tensor],
    model: TranslationModel,
    tolerance: float,
) -> None:
    """Hypotheses split, change places, and a sentence leaves."""
    for rows in (torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 3, 2]), torch.tensor([3, 2]), None):
        expected, found = theirs.step(tokens), ours.step(tokens)
        _compare("keys", expected.keys, found.keys, tolerance)
        _compare("logits", expected.logits, found.logits, tolerance)
        if rows is not None:
            theirs.select(rows)
            ours.select(rows)
            tokens = draw(model.vocab_size, len(rows), 1)


def _compare(name: str, expected: torch.Tensor, found: torch.Tensor, tolerance: float) -> None:
    deviation = float((found - expected).abs().mean() / expected.std())
    if not deviation <= tolerance:
        raise GraphError(f"its {name} differ by {deviation:.2g} standard deviations")
