"""Attach a memory to the user's own model: hooks that work with every strategy of `generate`."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from knnmt.binding import check_binding
from knnmt.datastore import Store
from knnmt.decoding.written import tokens_read, watching
from knnmt.errors import MethodError
from knnmt.memory import UNKNOWN_TOKEN, Memory, Passes, Place
from knnmt.methods import default_of, load_combiner, no_combiner
from knnmt.model import Heard, Logits, Tap, TranslationModel
from knnmt.model.sharing import in_own_pass, lock_of
from knnmt.search import Searcher

_ATTACHED: WeakSet[Any] = WeakSet()


@contextmanager
def attach(model: Any, tokenizer: Any, store: Store | str | Path, method: str | None = None) -> Iterator[None]:
    """Attach a store to a Hugging Face model inside a `with` block; afterwards the model is unchanged.

    Every thread that runs the model inside the block uses the store. A method with context needs the tokens so far.
    It gets all of them in `generate` and in calls of the model without a cache or with a new one. In your own loop
    with a cache it gets only the tokens of the call.

    Args:
        model: the encoder-decoder that the store was built with
        tokenizer: its tokenizer
        store: a store or its directory
        method: the name of a fitted combiner; by default the best fitted one

    Example:
        with knnmt.attach(model, tokenizer, "memory", method="vanilla"):
            model.generate(**tokenizer("Starten Sie den Dienst neu.", return_tensors="pt"), num_beams=5)
    """
    store = Store.open(store)
    default = default_of(store)
    combiner = load_combiner(store, method or default.name)
    if combiner is None:
        raise MethodError(no_combiner(store, default))
    with _attached_once(model):
        prefix = _prefix_length(model, tokenizer, store)
        tap, memory = Tap(model, store.model.key_layer), Memory(Searcher(store), combiner)
        # knnmt's own passes, such as those of a Translator with the same model, have their own memory or none
        with (
            tap.hooks(lambda: not in_own_pass(), context=bool(combiner.needs.context)) as heard,
            mixing(model, heard, memory, prefix),
        ):
            yield


@contextmanager
def _attached_once(model: Any) -> Iterator[None]:
    """Refuse a second `attach`: its memory would be mixed into the first mixture, not into the model's output."""
    with lock_of(model):
        if model in _ATTACHED:
            raise MethodError(
                "The model has a store attached already; leave that block first (other threads may run the model "
                "inside it), or load the model a second time."
            )
        _ATTACHED.add(model)
    try:
        yield
    finally:
        with lock_of(model):
            _ATTACHED.discard(model)


def _prefix_length(model: Any, tokenizer: Any, store: Store) -> int:
    """How many tokens are given to the decoder. Also checks that the store belongs to this model."""
    record = store.model
    wrapped = TranslationModel(
        model,
        tokenizer,
        record.id,
        key_layer=record.key_layer,
        source_lang=record.source_lang,
        target_lang=record.target_lang,
        source_prefix=record.source_prefix,
    )
    check_binding(wrapped, store)
    return len(wrapped.codec.prefix)


@contextmanager
def mixing(model: Any, heard: Heard, memory: Memory, prefix: int) -> Iterator[None]:
    """Mix the memory into the logits of every pass that was heard; the loss and gradients of the pass do not change.

    Changing the model's output works in greedy search, sampling and beam search. A LogitsProcessor would not: it sees
    raw logits in some and log p in others, and runs after tokens were banned.

    Args:
        heard: the states of the pass in this thread; empty for a pass that must not be changed
        prefix: how many tokens at the start are given (start token, language); forced tokens are not interpolated
    """
    context = bool(memory.combiner.needs.context)
    passes = Passes(memory.observer)

    def after(module: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        keys, read, of_sources = heard.keys, heard.tokens, heard.rows
        heard.forget()
        if not keys.numel():
            return output
        as_tuple = isinstance(output, tuple)
        logits: Tensor = output[0] if as_tuple else output.logits
        parts = output if as_tuple else output.values()
        cache = next((part for part in parts if hasattr(part, "get_seq_length")), None)
        length = logits.shape[1]
        before = cache.get_seq_length() - length if cache is not None else 0
        forced = min(max(prefix - 1 - before, 0), length)
        if forced == length:
            return output
        if logits.requires_grad:
            logits = logits.clone()
        free = logits[:, forced:]
        rows = Logits(free.reshape(-1, logits.shape[2]))  # a view where nothing is skipped
        found, place = memory.find(keys[:, forced:].reshape(len(rows), -1), rows), Place()
        if context:
            newest = read if read is not None else torch.full(keys.shape[:2], UNKNOWN_TOKEN)  # read inputs_embeds
            sequences = tokens_read(model, newest, before)
            place = passes.place(sequences, of_sources, heard.names, heard.sources, before + forced, prefix, found.ids)
        memory.mix(found, rows, place).mix_into(rows)
        if rows.values.data_ptr() != free.data_ptr():
            logits[:, forced:] = rows.values.view_as(free)
        if as_tuple:
            return (logits, *output[1:])
        output.logits = logits
        return output

    with lock_of(model):
        handle = model.register_forward_hook(after)
    try:
        with watching(model) if context else nullcontext():
            yield
    finally:
        with lock_of(model):
            handle.remove()
