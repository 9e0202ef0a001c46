"""Record a decoder's states: the inputs of the output projection and of the last feed-forward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident, local
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.errors import ModelError
from knnmt.model.sharing import lock_of, own_pass

KEY_LAYERS = ("output", "ffn_input")
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_BASE = 0x1E3779B97F4A7C15  # of a polynomial; odd, so that every bit counts


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
        rows: of which source each row is, as in `names`; None if it was not recorded  # int64 [batch]
        sources, names: what the encoder read in its latest pass, without padding, and a name for each source: a hash of
            its encoded states, because decoder passes get copies of these, in any order  # names: int64 [sources]
    """

    hidden: Tensor = torch.empty(0)
    keys: Tensor = torch.empty(0)
    tokens: Tensor | None = None
    rows: Tensor | None = None
    sources: Sequence[list[int]] = ()
    names: Tensor = torch.empty(0, dtype=torch.int64)

    def forget(self) -> None:
        """Forget the pass of the decoder; that of the encoder may be used again."""
        self.hidden = self.keys = torch.empty(0)
        self.tokens = self.rows = None


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
    def listening(self, project: bool = True, context: bool = False) -> Iterator[Heard]:
        """Record the passes of this thread while the block runs; passes of other threads are not affected.

        Args:
            project: if False, no logits are computed: they are empty
            context: also record what encoder and decoder read
        """
        this_thread = get_ident()
        with own_pass(self.model), self.hooks(lambda: get_ident() == this_thread, project, context) as heard:
            yield heard

    @contextmanager
    def hooks(self, acts: Callable[[], bool], project: bool = True, context: bool = False) -> Iterator[Heard]:
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
            if context:
                heard.tokens = inputs[0] if inputs else options.get("input_ids")
                encoded = inputs[1] if len(inputs) > 1 else options.get("encoder_hidden_states")
                heard.rows = None if encoded is None else _names(encoded)
            return _mask_the_future(module, inputs, options) if self.fsmt else None

        def at_encoder(module: nn.Module, inputs: Any, options: dict[str, Any], output: Any) -> None:
            if acts():
                ids = inputs[0] if inputs else options.get("input_ids")
                mask = inputs[1] if len(inputs) > 1 else options.get("attention_mask")
                heard.names = _names(output[0])
                heard.sources = () if ids is None else self._without_padding(ids, mask)

        with lock_of(self.model):
            handles = [self.projection.register_forward_pre_hook(at_projection)]
            if self.feed_forward is not None:
                handles.append(self.feed_forward.register_forward_pre_hook(at_feed_forward))
            if self.fsmt or context:
                handles.append(self.decoder.register_forward_pre_hook(at_decoder, with_kwargs=True))
            if context:
                handles.append(self.model.get_encoder().register_forward_hook(at_encoder, with_kwargs=True))
        try:
            yield heard
        finally:
            with lock_of(self.model):
                for handle in handles:
                    handle.remove()

    def _without_padding(self, ids: Tensor, mask: Tensor | None) -> list[list[int]]:
        kept = ids != self.model.config.pad_token_id if mask is None or mask.shape != ids.shape else mask.bool()
        return [row[real].tolist() for row, real in zip(ids, kept, strict=True)]


def _names(encoded: Tensor) -> Tensor:
    """A hash of the bits of each sentence's first encoded state.  # encoded [sentences, length, d_model]"""
    state = encoded[:, 0].detach().contiguous()
    bits = state.view(_BITS[state.element_size()]).to(torch.int64)
    return (bits * torch.full_like(bits[0], _BASE).cumprod(0)).sum(1)  # sums and products wrap around


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
