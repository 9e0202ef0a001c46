"""What `generate` has written so far: a pass with a cache reads only the newest tokens of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from knnmt.model.sharing import lock_of


class _Written(local):
    """Of this thread: all tokens of the sequences that `generate` is about to run the model for."""

    ids: Tensor | None = None


class _Watch:
    """A model whose `prepare_inputs_for_generation` is watched, by one block or several."""

    def __init__(self, model: Any) -> None:
        self.written = _Written()
        self.blocks = 0
        prepare = model.prepare_inputs_for_generation

        @wraps(prepare)  # with its signature, which `generate` checks its options by
        def watched(input_ids: Tensor, *arguments: Any, **options: Any) -> Any:
            self.written.ids = input_ids
            return prepare(input_ids, *arguments, **options)

        model.prepare_inputs_for_generation = watched


_WATCHED: WeakKeyDictionary[Any, _Watch] = WeakKeyDictionary()


@contextmanager
def watching(model: Any) -> Iterator[None]:
    """Let `tokens_read` know what `generate` writes while the block runs; then the model is as it was.

    Blocks of several threads may overlap: the first to enter begins it, the last to leave ends it.
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
    """All tokens that the decoder's states depend on, of the pass that this thread ran last.

    Args:
        newest: what the decoder read in the pass  # [rows, length]
        before: how many it had read before, and keeps in its cache

    Returns:
        [rows, before + length]; −1 where nobody knows: in a cache that somebody else than `generate` handles
    """
    watch = _WATCHED.get(model)
    ids = watch.written.ids if watch else None
    if watch:
        watch.written.ids = None
    if ids is not None and ids.shape == (len(newest), before + newest.shape[1]):
        return ids
    unknown = newest.new_full((len(newest), before), -1)
    return torch.cat([unknown, newest], 1)
