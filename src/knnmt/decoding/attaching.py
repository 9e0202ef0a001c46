"""The memory inside somebody's own model: hooks that work under every strategy of `generate`."""

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
from knnmt.memory import Memory, past_of_sequences
from knnmt.methods import default_of, load_combiner, no_combiner
from knnmt.model import Heard, Logits, Tap, TranslationModel
from knnmt.model.sharing import in_own_pass, lock_of
from knnmt.search import Searcher

_ATTACHED: WeakSet[Any] = WeakSet()


@contextmanager
def attach(model: Any, tokenizer: Any, store: Store | str | Path, method: str | None = None) -> Iterator[None]:
    """Give a store's memory to a Hugging Face model while the block runs; then the model is as it was.

    It helps every thread that runs the model within the block. A method that looks at the tokens so far knows them in
    `generate`, and in a call of the model that has no cache or begins one; in a loop of your own with a cache it knows
    those of the call.

    Args:
        model: the encoder-decoder the store was made with
        tokenizer: its tokenizer
        store: a store or its directory
        method: the name of a fitted combiner; by default the best that was fitted

    Example:
        with knnmt.attach(model, tokenizer, "memory", method="vanilla"):
            model.generate(**tokenizer("Starten Sie den Dienst neu.", return_tensors="pt"), num_beams=5)
    """
    store = Store.open(store)
    default = default_of(store)
    combiner = load_combiner(store, method or default.name)
    if combiner is None:
        raise MethodError(no_combiner(store, default))
    with _alone(model):
        prefix = _prefix_length(model, tokenizer, store)
        tap, memory = Tap(model, store.model.key_layer), Memory(Searcher(store), combiner)
        # passes of knnmt's own, of a Translator with the same model say, have their own memory or none
        with (
            tap.hooks(lambda: not in_own_pass(), tokens=combiner.needs.context) as heard,
            mixing(model, heard, memory, prefix),
        ):
            yield


@contextmanager
def _alone(model: Any) -> Iterator[None]:
    """A second memory would be mixed into what the first one has mixed already."""
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
    """How many tokens are given to the decoder, after checking that the store is this model's."""
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
    """Mix the memory into the logits of every pass that was heard; its loss and gradients stay its own.

    Changing the model's output, rather than adding a LogitsProcessor, is right in greedy, sampling and beam
    search alike: processors see raw logits in one and log p in the other, and run after tokens were banned.

    Args:
        heard: the states of the pass, of the thread that runs it; empty for a pass that is none of ours
        prefix: how many first tokens are given (a start token, a language); what is forced is not interpolated
    """
    context = memory.combiner.needs.context

    def after(module: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        keys, read = heard.keys, heard.tokens
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
        so_far = None
        if context:
            newest = read if read is not None else torch.full(keys.shape[:2], -1)  # somebody gave vectors, not tokens
            so_far = past_of_sequences(tokens_read(model, newest, before), before + forced, prefix).flatten(0, 1)
        if logits.requires_grad:
            logits = logits.clone()
        free = logits[:, forced:]
        rows = Logits(free.reshape(-1, logits.shape[2]))  # a view where nothing is skipped
        memory.begin().ask(keys[:, forced:].reshape(len(rows), -1), rows, so_far).mix_into(rows)
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
