"""A Hugging Face encoder-decoder as kNN-MT needs it: with its tokens, its decoder states and its fingerprints."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from knnmt.errors import ModelError
from knnmt.model.fingerprint import model_fingerprint, tokenizer_fingerprint
from knnmt.model.loading import load_pretrained
from knnmt.model.tap import Tap
from knnmt.model.text import Codec


class TranslationModel:
    """A translation model and its tokenizer, bound to one direction. An `Engine` runs it.

    Args:
        model: a Hugging Face encoder-decoder with a language-modelling head
        tokenizer: its tokenizer
        name: as the user gave it; recorded in stores built with it
        key_layer: `output`, the input of the output projection, or `ffn_input`, the input of the last feed-forward
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str = "",
        *,
        key_layer: str = "output",
        source_lang: str | None = None,
        target_lang: str | None = None,
        source_prefix: str = "",
    ) -> None:
        self.hf = model
        self.name = name or str(getattr(model, "name_or_path", ""))
        self.key_layer = key_layer
        self.codec = Codec(model, tokenizer, source_lang, target_lang, source_prefix)
        self.tap = Tap(model, key_layer)
        self.check_projection()

    @classmethod
    def load(cls, name: str, *, device: str = "auto", **options: Any) -> "TranslationModel":
        """Load by directory, hub id or the name of a bundled model; `options` as for the class."""
        model, tokenizer = load_pretrained(name, device)
        # absolute, because a store may be used from another working directory
        return cls(model, tokenizer, str(Path(name).resolve()) if Path(name).is_dir() else name, **options)

    @property
    def dim(self) -> int:
        return self.tap.dim

    @property
    def vocab_size(self) -> int:
        return int(self.tap.projection.out_features)

    @property
    def device(self) -> torch.device:
        return self.tap.projection.weight.device

    @cached_property
    def fingerprint(self) -> str:
        return model_fingerprint(self.hf)

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        with self.codec.bound() as tokenizer:
            return tokenizer_fingerprint(tokenizer)

    @property
    def precision(self) -> str:
        return str(self.tap.projection.weight.dtype).removeprefix("torch.")

    @cached_property
    def bias(self) -> Tensor | None:
        """The bias of the logits, if there is any.  # [vocabulary]"""
        extra = getattr(self.hf, "final_logits_bias", None)
        own = self.tap.projection.bias
        parts = [part.reshape(-1) for part in (own, extra) if part is not None]
        return torch.stack(parts).sum(0) if parts else None

    def pad_sources(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Ids and attention mask of a batch of encoded sources.  # both [batch, length]"""
        # from the lengths, not from the ids: the pad token may also be a start token
        lengths = torch.tensor([[len(source)] for source in sources])
        padded = self.pad(sources)
        mask = torch.arange(padded.shape[1]) < lengths
        return padded, mask.long().to(self.device)

    def pad(self, rows: Sequence[list[int]]) -> Tensor:
        """Rows of tokens, padded at the end to the longest.  # [rows, length]"""
        width = max(map(len, rows))
        return torch.tensor([row + [self.codec.pad] * (width - len(row)) for row in rows], device=self.device)

    @torch.inference_mode()
    def check_projection(self) -> None:
        """Refuse a model whose logits are not just a projection and a bias: log p would be wrong."""
        ids = torch.tensor([[self.codec.eos]], device=self.device)
        start = torch.tensor([[self.codec.prefix[0]]], device=self.device)
        with self.tap.listening() as heard:
            expected = self.hf(input_ids=ids, decoder_input_ids=start, use_cache=False).logits[0]
            found = torch.nn.functional.linear(heard.hidden[0], self.tap.projection.weight, self.bias)
        rounding = 4 * torch.finfo(expected.dtype).eps * float(expected.abs().max())
        if not torch.allclose(found, expected, rtol=1e-3, atol=max(1e-3, rounding)):
            raise ModelError(
                f"{type(self.hf).__name__} does more to its logits than project the decoder's state, "
                "which knnmt does not know how to follow; use another model."
            )
