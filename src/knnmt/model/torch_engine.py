"""The torch engine: it runs the model of transformers as it is."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from knnmt.model.engine import Decoder, Engine, StepStates
from knnmt.model.logits import Logits
from knnmt.model.sharing import own_pass
from knnmt.model.translation_model import TranslationModel


class TorchEngine(Engine):
    """Runs models of any family; it has no state except the model."""

    name = "torch"

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model, model.precision)

    def start(self, sources: Sequence[list[int]]) -> "TorchDecoder":
        return TorchDecoder(self, sources)

    def decode_targets(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        with self.model.tap.listening(project=False) as heard:
            # use_cache=False and input_ids: FSMT has no causal mask otherwise
            self.model.hf(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_input, use_cache=False)
            return heard.keys, heard.hidden

    def project(self, hidden: Tensor, tokens: Tensor | None = None) -> Logits:
        """For some tokens, only their rows of the projection's weight are read."""
        weight, bias = self.model.tap.projection.weight, self.model.bias
        if tokens is not None:
            tokens = tokens.to(weight.device)
            weight, bias = weight[tokens], None if bias is None else bias[tokens]
        return Logits(torch.nn.functional.linear(hidden, weight, bias).float(), tokens)


class TorchDecoder(Decoder):
    def __init__(self, engine: TorchEngine, sources: Sequence[list[int]]) -> None:
        self.engine, self.model = engine, engine.model
        ids, self.mask = self.model.pad_sources(sources)
        with own_pass(self.model.hf):
            self.encoded: Any = self.model.hf.get_encoder()(input_ids=ids, attention_mask=self.mask)
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self.width = 1  # rows per sentence

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> StepStates:
        with self.model.tap.listening(project=False) as heard:
            self.model.hf(
                encoder_outputs=self.encoded,
                attention_mask=self.mask,
                decoder_input_ids=tokens.to(self.model.device),
                past_key_values=self.cache,
                use_cache=True,
            )
            return StepStates(heard.keys[:, -1], heard.hidden[:, -1])

    @torch.inference_mode()
    def project(self, states: StepStates, tokens: Tensor | None = None) -> Logits:
        return self.engine.project(states.hidden, tokens)

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        kept: Any = rows.to(self.model.device)
        self.cache.self_attention_cache.reorder_cache(kept)
        # Rows of one sentence have the same source, so rows that only move within it need no copy of its states.
        before = torch.arange(len(self.mask)) // self.width
        sentences = rows // self.width
        self.width = len(rows) // len(torch.unique_consecutive(sentences))
        if not torch.equal(sentences, before):
            self.cache.cross_attention_cache.reorder_cache(kept)
            self.mask = self.mask[kept]
            self.encoded.last_hidden_state = self.encoded.last_hidden_state[kept]
