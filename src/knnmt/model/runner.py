"""How a model is run: the interface, and the way that runs every family, by torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from knnmt.model.sharing import own_pass
from knnmt.model.translation_model import Pass, TorchPass, TranslationModel

WORK = ("steps", "passes")  # what a runner is for: translating, or whole targets


@dataclass(frozen=True)
class Step:
    """What a decoder says of each row's next token.

    Attributes:
        keys: what is searched for  # [rows, dim]
        logits: float32 [rows, vocabulary]
    """

    keys: Tensor
    logits: Tensor


class Decoder(Protocol):
    """Some sentences in the middle of being translated; it begins with one row for each."""

    def step(self, tokens: Tensor) -> Step:
        """Read the rows' next tokens.  # tokens [rows, one or more]"""

    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in this order, some of them perhaps several times.

        Every sentence that stays has as many rows as every other, one behind the other.
        """


class Runner(Pass, Protocol):
    """How a model is run: its decoder token by token, or whole targets at once.

    Attributes:
        name, precision: as they are written in stores and signatures
    """

    name: str
    precision: str

    def start(self, sources: Sequence[list[int]]) -> Decoder:
        """Encode a batch of sources."""


class TorchRunner(TorchPass):
    """Runs any family as transformers has it."""

    name = "torch"

    def __init__(self, model: TranslationModel) -> None:
        super().__init__(model)
        self.precision = model.precision

    def start(self, sources: Sequence[list[int]]) -> "TorchDecoder":
        return TorchDecoder(self.model, sources)


class TorchDecoder:
    def __init__(self, model: TranslationModel, sources: Sequence[list[int]]) -> None:
        self.model = model
        ids, self.mask = model.pad_sources(sources)
        with own_pass(model.hf):
            self.encoded: Any = model.hf.get_encoder()(input_ids=ids, attention_mask=self.mask)
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self.width = 1  # rows of a sentence

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Step:
        with self.model.tap.listening() as heard:
            output = self.model.hf(
                encoder_outputs=self.encoded,
                attention_mask=self.mask,
                decoder_input_ids=tokens.to(self.model.device),
                past_key_values=self.cache,
                use_cache=True,
            )
            keys = heard.keys[:, -1]
        return Step(keys, output.logits[:, -1].float())

    @torch.inference_mode()
    def select(self, rows: Tensor) -> None:
        kept: Any = rows.to(self.model.device)
        self.cache.self_attention_cache.reorder_cache(kept)
        # What the rows of a sentence know of its source is the same, so it stays where they only change places.
        before = torch.arange(len(self.mask)) // self.width
        sentences = rows // self.width
        self.width = len(rows) // len(torch.unique_consecutive(sentences))
        if not torch.equal(sentences, before):
            self.cache.cross_attention_cache.reorder_cache(kept)
            self.mask = self.mask[kept]
            self.encoded.last_hidden_state = self.encoded.last_hidden_state[kept]
