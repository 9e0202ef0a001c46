"""Any Hugging Face encoder-decoder as kNN-MT needs it: tokens, states of a teacher-forced pass, log p."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.errors import ModelError
from knnmt.model.batching import TOKENS_PER_BATCH, TOKENS_PER_CPU_BATCH, batches_by_tokens
from knnmt.model.fingerprint import model_fingerprint, tokenizer_fingerprint
from knnmt.model.loading import load_pretrained
from knnmt.model.tap import Tap
from knnmt.model.text import Codec

_CHUNK_VALUES = 4_000_000  # logits held at once in the teacher-forced pass: 16 MB, and cache-friendly


@dataclass(frozen=True)
class States:
    """The states of one teacher-forced batch, padding dropped: sentence after sentence, position after position.

    Attributes:
        sentences: which of the given sentences, in the order their positions follow  # [batch]
        lengths: how many positions each of them has  # [batch]
        keys: what is stored and searched  # [positions, dim]
        hidden: what enters the output projection  # [positions, d_model]
        tokens: the token to be predicted there  # [positions]
    """

    sentences: NDArray[np.int64]
    lengths: NDArray[np.int64]
    keys: Tensor
    hidden: Tensor
    tokens: Tensor


class Pass(Protocol):
    """What runs whole targets through a model: torch, or something quicker."""

    def force(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and what enters the output projection, at every position.  # [batch, length, dim or d_model]"""

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, d_model] → [rows, vocabulary]"""


class TorchPass:
    """Runs any family as transformers has it."""

    def __init__(self, model: "TranslationModel") -> None:
        self.model = model

    def force(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        with self.model.tap.listening(project=False) as heard:
            # use_cache=False and input_ids: FSMT has no causal mask otherwise
            self.model.hf(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_input, use_cache=False)
            return heard.keys, heard.hidden

    def logits(self, hidden: Tensor) -> Tensor:
        return torch.nn.functional.linear(hidden, self.model.tap.projection.weight, self.model.bias)


class TranslationModel:
    """A translation model and its tokenizer, bound to one direction.

    Args:
        model: a Hugging Face encoder-decoder with a language-modelling head
        tokenizer: its tokenizer
        name: what the user calls it; written in the stores made with it
        key_layer: `output`, the input of the output projection, or `ffn_input`, that of the last feed-forward
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
        self.by: Pass = TorchPass(self)
        self.engines: dict[Any, Any] = {}  # made so far; `make_runner` keeps them here so that they go with the model
        self.check_projection()

    @classmethod
    def load(cls, name: str, *, device: str = "auto", **options: Any) -> "TranslationModel":
        """Load by directory, hub id or the name of a bundled model; `options` as for the class."""
        model, tokenizer = load_pretrained(name, device)
        # a store may be used from another working directory than it was made in
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
        """What is added to the projected state  # [vocabulary]"""
        extra = getattr(self.hf, "final_logits_bias", None)
        own = self.tap.projection.bias
        parts = [part.reshape(-1) for part in (own, extra) if part is not None]
        return torch.stack(parts).sum(0) if parts else None

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, d_model] → [rows, vocabulary]"""
        return self.by.logits(hidden)

    def run_by(self, other: Pass) -> "TranslationModel":
        """The same model with its whole targets run by something else."""
        model = copy(self)
        model.by = other
        return model

    @property
    def chunk_rows(self) -> int:
        """How many rows × vocabulary are worth having at once."""
        return max(16, _CHUNK_VALUES // self.vocab_size)

    @torch.inference_mode()
    def log_p(self, states: States) -> Tensor:
        """log p_NMT of each position's own token, in chunks that touch the vocabulary once.  # [positions]"""
        chunks = zip(
            torch.split(states.hidden, self.chunk_rows), torch.split(states.tokens, self.chunk_rows), strict=True
        )
        return torch.cat([self.token_log_p(hidden, tokens) for hidden, tokens in chunks])

    def token_log_p(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """log p_NMT of one token a row; makes all rows × vocabulary at once.  # [rows]"""
        logits = self.logits(hidden).float()
        return logits.gather(1, tokens[:, None]).squeeze(1) - logits.logsumexp(1)

    def batches(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], budget: int | None = None
    ) -> Iterator[States]:
        """Teacher-forced states of all sentences, in batches of like length."""
        budget = budget or (TOKENS_PER_CPU_BATCH if self.device.type == "cpu" else TOKENS_PER_BATCH)
        for batch in batches_by_tokens(sources, targets, budget):
            yield self.teacher_forced([sources[i] for i in batch], [targets[i] for i in batch], batch)

    @torch.inference_mode()
    def teacher_forced(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        sentences: NDArray[np.int64] | None = None,
    ) -> States:
        """One pass over a batch of encoded sentences; the vocabulary is not touched."""
        prefix = list(self.codec.prefix)
        # Never `labels`: FSMT would decode the shifted source. The target without its end is what goes in.
        decoder_input = self._pad([prefix + target[:-1] for target in targets])
        keys, hidden = self.by.force(*self.pad_sources(sources), decoder_input)
        given = len(prefix) - 1  # positions whose prediction is forced, not the model's
        lengths = np.array([len(target) for target in targets], dtype=np.int64)
        place = torch.arange(decoder_input.shape[1] - given) < torch.from_numpy(lengths)[:, None]
        picked = place.to(self.device)
        chosen = hidden[:, given:][picked]
        return States(
            sentences=np.arange(len(targets)) if sentences is None else sentences,
            lengths=lengths,
            keys=keys[:, given:][picked] if self.key_layer == "ffn_input" else chosen,
            hidden=chosen,
            tokens=torch.tensor([token for target in targets for token in target], device=self.device),
        )

    def pad_sources(self, sources: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Ids and attention mask of a batch of encoded sources.  # both [batch, length]"""
        # by the tokenizer's own lengths: a pad token may be a start token too
        lengths = torch.tensor([[len(source)] for source in sources])
        padded = self._pad(sources)
        mask = torch.arange(padded.shape[1]) < lengths
        return padded, mask.long().to(self.device)

    def _pad(self, rows: Sequence[list[int]]) -> Tensor:
        width = max(map(len, rows))
        return torch.tensor([row + [self.codec.pad] * (width - len(row)) for row in rows], device=self.device)

    @torch.inference_mode()
    def check_projection(self) -> None:
        """Refuse a model that does more to its logits than project and add a bias: log p would be wrong."""
        ids = torch.tensor([[self.codec.eos]], device=self.device)
        start = torch.tensor([[self.codec.prefix[0]]], device=self.device)
        with self.tap.listening() as heard:
            expected = self.hf(input_ids=ids, decoder_input_ids=start, use_cache=False).logits[0]
            found = self.logits(heard.hidden[0])
        rounding = 4 * torch.finfo(expected.dtype).eps * float(expected.abs().max())
        if not torch.allclose(found, expected, rtol=1e-3, atol=max(1e-3, rounding)):
            raise ModelError(
                f"{type(self.hf).__name__} does more to its logits than project the decoder's state, "
                "which knnmt does not know how to follow; use another model."
            )
