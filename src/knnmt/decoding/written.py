"""The tokens that `generate` has produced so far; a pass with a cache reads only the newest of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from knnmt.memory import UNKNOWN_TOKEN
from knnmt.model.sharing import lock_of


class _Written(local):
    """All tokens of the sequences that `generate` is about to run the model on, per thread."""

    ids: Tensor | None = None


class _Watch:
    """A model whose `prepare_inputs_for_generation` is watched by one or more blocks."""

    def __init__(self, model: Any) -> None:
        self.written = _Written()
        self.blocks = 0
        prepare = model.prepare_inputs_for_generation

        @wraps(prepare)  # keeps its signature, because `generate` validates its options against it
        def watched(input_ids: Tensor, *arguments: Any, **options: Any) -> Any:
            self.written.ids = input_ids
            return prepare(input_ids, *arguments, **options)

        model.prepare_inputs_for_generation = watched


_WATCHED: WeakKeyDictionary[Any, _Watch] = WeakKeyDictionary()


@contextmanager
def watching(model: Any) -> Iterator[None]:
    """Record for `tokens_read` what `generate` produces inside the block; afterwards the model is unchanged.

    Blocks of several threads may overlap: the first one starts the recording, the last one ends it.
    """
    with lock_of(model):
        if model not in _WATCHED:
            _WATCHED[model] = _Watch(model)
        _WATCHED[model].blocks += 1
    try:
        yield
    finally:
        with lock_of(model):
            _WATCHED[model].blocks -= 1
            if not _WATCHED[model].blocks:
                del _WATCHED[model], model.prepare_inputs_for_generation


def tokens_read(model: Any, newest: Tensor, before: int) -> Tensor:
    """All tokens that the decoder had read at the end of this thread's last pass.

    Args:
        newest: the tokens of the pass itself  # [rows, length]
        before: how many tokens were read earlier and are in the cache

    Returns:
        [rows, before + length]; `UNKNOWN_TOKEN` where the cache was not filled by `generate`
    """
    watch = _WATCHED.get(model)
    ids = watch.written.ids if watch else None
    if watch:
        watch.written.ids = None
    if ids is not None and ids.shape == (len(newest), before + newest.shape[1]):
        return ids
    unknown = newest.new_full((len(newest), before), UNKNOWN_TOKEN)
    return torch.cat([unknown, newest], 1)
