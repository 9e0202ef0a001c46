"""Record a decoder's states: the inputs of the output projection and of the last feed-forward."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident, local
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.errors import ModelError
from knnmt.model.sharing import lock_of, own_pass

KEY_LAYERS = ("output", "ffn_input")


def output_projection(model: Any) -> nn.Linear:
    """The module that turns a decoder state into logits."""
    # FSMT's get_output_embeddings gives an Embedding; the projection is in its decoder.
    decoder = model.get_decoder()
    projection = getattr(decoder, "output_projection", None) or model.get_output_embeddings()
    if not isinstance(projection, nn.Linear):
        raise ModelError(f"No linear output projection was found in {type(model).__name__}.")
    return projection


def feed_forward(model: Any) -> nn.Module:
    """The feed-forward (its first linear map, or T5's whole block) of the last decoder layer."""
    names = ("fc1", "DenseReluDense")
    found = [module for name, module in model.get_decoder().named_modules() if name.split(".")[-1] in names]
    if not found:
        raise ModelError(f"{type(model).__name__} has no feed-forward that ffn_input knows; use the output layer.")
    last: nn.Module = found[-1]
    return last


class Heard(local):
    """The states of the latest forward pass in this thread.

    Attributes:
        hidden: the input of the output projection  # [batch, length, d_model]
        keys: what is stored and searched; the same tensor for the key layer `output`  # [batch, length, dim]
        tokens: what the decoder read; None if it was not recorded or the decoder read no ids  # [batch, length]
    """

    hidden: Tensor = torch.empty(0)
    keys: Tensor = torch.empty(0)
    tokens: Tensor | None = None

    def forget(self) -> None:
        self.hidden = self.keys = torch.empty(0)
        self.tokens = None


class Tap:
    """The modules of a model whose inputs are the decoder's states."""

    def __init__(self, model: Any, key_layer: str) -> None:
        if key_layer not in KEY_LAYERS:
            raise ModelError(f"There is no key layer {key_layer}; choose one of {', '.join(KEY_LAYERS)}.")
        self.model = model
        self.projection = output_projection(model)
        self.feed_forward = feed_forward(model) if key_layer == "ffn_input" else None
        self.fsmt = model.config.model_type == "fsmt"  # its layers work on [length, batch, dim]
        self.decoder: nn.Module = model.get_decoder()

    @property
    def dim(self) -> int:
        """The size of a key, which is d_model for both key layers."""
        return int(self.projection.in_features)

    @contextmanager
    def listening(self, project: bool = True, tokens: bool = False) -> Iterator[Heard]:
        """Record the passes of this thread while the block runs; passes of other threads are not affected.

        Args:
            project: if False, no logits are computed: they are empty
            tokens: also record what the decoder reads
        """
        this_thread = get_ident()
        with own_pass(self.model), self.hooks(lambda: get_ident() == this_thread, project, tokens) as heard:
            yield heard

    @contextmanager
    def hooks(self, acts: Callable[[], bool], project: bool = True, tokens: bool = False) -> Iterator[Heard]:
        """Record every pass for which `acts()` is true, separately per thread; other arguments as for `listening`."""
        heard = Heard()

        def at_projection(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor] | None:
            if not acts():
                heard.forget()
                return None
            heard.hidden = inputs[0]
            if self.feed_forward is None:
                heard.keys = inputs[0]
            return None if project else (inputs[0][:, :0],)

        def at_feed_forward(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if acts():
                heard.keys = inputs[0].transpose(0, 1) if self.fsmt else inputs[0]

        # `options` is missing if another thread's pass meets the hook while it is being set or removed
        def at_decoder(module: nn.Module, inputs: Any, options: dict[str, Any] | None = None) -> Any:
            if options is None or not acts():
                return None
            if tokens:
                heard.tokens = inputs[0] if inputs else options.get("input_ids")
            return _mask_the_future(module, inputs, options) if self.fsmt else None

        with lock_of(self.model):
            handles = [self.projection.register_forward_pre_hook(at_projection)]
            if self.feed_forward is not None:
                handles.append(self.feed_forward.register_forward_pre_hook(at_feed_forward))
            if self.fsmt or tokens:
                handles.append(self.decoder.register_forward_pre_hook(at_decoder, with_kwargs=True))
        try:
            yield heard
        finally:
            with lock_of(self.model):
                for handle in handles:
                    handle.remove()


def _mask_the_future(
    module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Add the causal mask that FSMT omits when it uses its cache: assisted decoding has several positions per call."""
    length = inputs[0].shape[1]
    if options["decoder_causal_mask"] is None and length > 1:
        cache = options.get("past_key_values")
        past = cache.get_seq_length() if cache is not None else 0
        like = next(module.parameters())
        lowest = torch.finfo(like.dtype).min
        mask = torch.full((length, past + length), lowest, dtype=like.dtype, device=like.device).triu(past + 1)
        options = options | {"decoder_causal_mask": mask}
    return inputs, options
