"""The memory inside somebody's own model: hooks that work under every strategy of `generate`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from knnmt.combiner import default_of, load_combiner
from knnmt.datastore import Store
from knnmt.decoding.binding import check_binding, no_combiner
from knnmt.decoding.memory import Memory
from knnmt.errors import MethodError
from knnmt.model import Tap, TranslationModel
from knnmt.search import Searcher


@contextmanager
def attach(model: Any, tokenizer: Any, store: Store | str | Path, method: str | None = None) -> Iterator[None]:
    """Give a store's memory to a Hugging Face model while the block runs; then the model is as it was.

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
    given = _forced_positions(model, tokenizer, store)
    with hooked(model, Tap(model, store.model.key_layer), Memory(Searcher(store), combiner), given):
        yield


def _forced_positions(model: Any, tokenizer: Any, store: Store) -> int:
    """How many positions are forced, after checking that the store is this model's; the tokenizer stays as it was."""
    languages = {name: getattr(tokenizer, name) for name in ("src_lang", "tgt_lang") if hasattr(tokenizer, name)}
    record = store.model
    try:
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
        return len(wrapped.codec.prefix) - 1
    finally:
        for attribute, value in languages.items():
            setattr(tokenizer, attribute, value)


@contextmanager
def hooked(model: Any, tap: Tap, memory: Memory, forced: int) -> Iterator[None]:
    """Mix the memory into the logits of every forward pass of the model; its loss and gradients stay its own.

    Changing the model's output, rather than adding a LogitsProcessor, is right in greedy, sampling and beam
    search alike: processors see raw logits in one and log p in the other, and run after tokens were banned.

    Args:
        forced: how many first positions are forced tokens (a language), which are not interpolated
    """

    def after(module: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        as_tuple = isinstance(output, tuple)
        logits: Tensor = output[0] if as_tuple else output.logits
        parts = output if as_tuple else output.values()
        cache = next((part for part in parts if hasattr(part, "get_seq_length")), None)
        length = logits.shape[1]
        before = cache.get_seq_length() - length if cache is not None else 0
        skip = min(max(forced - before, 0), length)
        if skip == length:
            return output
        if logits.requires_grad:
            logits = logits.clone()
        free = logits[:, skip:]
        rows = free.reshape(-1, logits.shape[2])  # a view where nothing is skipped
        memory.mix(tap.keys[:, skip:].reshape(len(rows), -1), rows)
        if rows.data_ptr() != free.data_ptr():
            logits[:, skip:] = rows.view_as(free)
        if as_tuple:
            return (logits, *output[1:])
        output.logits = logits
        return output

    with tap.listening():
        handle = model.register_forward_hook(after)
        try:
            yield
        finally:
            handle.remove()
