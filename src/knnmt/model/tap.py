"""Where a decoder's states are seen: what enters the output projection, and what enters the last feed-forward."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.errors import ModelError

KEY_LAYERS = ("output", "ffn_input")


def output_projection(model: Any) -> nn.Linear:
    """The module that turns a decoder state into logits."""
    # FSMT's get_output_embeddings gives an Embedding; the projection sits inside its decoder.
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


class Tap:
    """The states of the forward pass that ran last.

    Attributes:
        hidden: what entered the output projection  # [batch, length, d_model]
        keys: what is stored and searched; the same tensor for the key layer `output`  # [batch, length, dim]
    """

    def __init__(self, model: Any, key_layer: str) -> None:
        if key_layer not in KEY_LAYERS:
            raise ModelError(f"There is no key layer {key_layer}; choose one of {', '.join(KEY_LAYERS)}.")
        self.projection = output_projection(model)
        self.feed_forward = feed_forward(model) if key_layer == "ffn_input" else None
        self.fsmt = model.config.model_type == "fsmt"  # its layers work on [length, batch, dim]
        self.decoder: nn.Module = model.get_decoder()
        self.hidden: Tensor = torch.empty(0)
        self.keys: Tensor = torch.empty(0)

    @property
    def dim(self) -> int:
        """The size of a key, which is d_model for both key layers."""
        return int(self.projection.in_features)

    @contextmanager
    def listening(self, project: bool = True) -> Iterator["Tap"]:
        """Record while the block runs. Without `project`, the vocabulary is never touched: logits come out empty."""

        def at_projection(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor] | None:
            self.hidden = inputs[0]
            if self.feed_forward is None:
                self.keys = inputs[0]
            return None if project else (inputs[0][:, :0],)

        def at_feed_forward(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.keys = inputs[0].transpose(0, 1) if self.fsmt else inputs[0]

        handles = [self.projection.register_forward_pre_hook(at_projection)]
        if self.feed_forward is not None:
            handles.append(self.feed_forward.register_forward_pre_hook(at_feed_forward))
        if self.fsmt:
            handles.append(self.decoder.register_forward_pre_hook(_mask_the_future, with_kwargs=True))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()
            self.hidden = self.keys = torch.empty(0)


def _mask_the_future(
    module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """FSMT with its cache on makes no causal mask, so several positions a call (assisted decoding) see the future."""
    length = inputs[0].shape[1]
    if options["decoder_causal_mask"] is None and length > 1:
        cache = options.get("past_key_values")
        past = cache.get_seq_length() if cache is not None else 0
        like = next(module.parameters())
        lowest = torch.finfo(like.dtype).min
        mask = torch.full((length, past + length), lowest, dtype=like.dtype, device=like.device).triu(past + 1)
        options = options | {"decoder_causal_mask": mask}
    return inputs, options
