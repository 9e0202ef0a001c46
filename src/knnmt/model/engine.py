"""The interface of the engines: they run a decoder token by token, or over whole targets at once."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knnmt.model.batching import TOKENS_PER_BATCH, TOKENS_PER_CPU_BATCH, batches_by_tokens
from knnmt.model.logits import Logits
from knnmt.model.translation_model import TranslationModel

_CHUNK_VALUES = 4_000_000  # logits held at once in the teacher-forced pass: 16 MB, which caches well


class Purpose(Enum):
    """What an engine is used for; it is checked for this purpose before use."""

    STEPS = "translating, token by token"
    TARGETS = "teacher forcing, whole targets at once"


@dataclass(frozen=True)
class States:
    """The states of one teacher-forced batch, without padding: sentence after sentence, position after position.

    Attributes:
        sentences: the index of each sentence, in the order of the positions  # [batch]
        lengths: the number of positions of each sentence  # [batch]
        keys: what is stored and searched  # [positions, dim]
        hidden: the input of the output projection  # [positions, d_model]
        tokens: the token to predict at each position  # [positions]
    """

    sentences: NDArray[np.int64]
    lengths: NDArray[np.int64]
    keys: Tensor
    hidden: Tensor
    tokens: Tensor


@dataclass(frozen=True)
class StepStates:
    """The states from which the next token of each row is predicted.

    Attributes:
        keys: the queries of the search  # [rows, dim]
        hidden: the input of the output projection  # [rows, d_model]
    """

    keys: Tensor
    hidden: Tensor


class Decoder(ABC):
    """Sentences that are being translated; it starts with one row per sentence.

    The next step may overwrite states and logits.
    """

    @abstractmethod
    def step(self, tokens: Tensor) -> StepStates:
        """Read the next tokens of each row.  # tokens [rows, one or more]"""

    @abstractmethod
    def project(self, states: StepStates, tokens: Tensor | None = None) -> Logits:
        """The logits of each row, float32, for all tokens or for some.  # tokens [columns]"""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may occur several times.

        All sentences that remain have the same number of rows, and the rows of a sentence are adjacent.
        """


class Engine(ABC):
    """A way to run a model.

    Attributes:
        model: the model that it runs
        name, precision: as written in stores and signatures
    """

    name: ClassVar[str]

    def __init__(self, model: TranslationModel, precision: str) -> None:
        self.model, self.precision = model, precision

    @abstractmethod
    def start(self, sources: Sequence[list[int]]) -> Decoder:
        """Encode a batch of sources."""

    @abstractmethod
    def decode_targets(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and the inputs of the output projection, at every position of the targets.

        Args:
            ids, mask: of the sources  # [batch, source length]
            decoder_input: what the decoder reads  # [batch, length]

        Returns:
            [batch, length, dim] and [batch, length, d_model]
        """

    @abstractmethod
    def project(self, hidden: Tensor, tokens: Tensor | None = None) -> Logits:
        """The logits of states, for all tokens or for some.  # hidden [rows, d_model], tokens [columns]"""

    @property
    def chunk_rows(self) -> int:
        """How many rows of logits over the vocabulary to compute at once."""
        return max(16, _CHUNK_VALUES // self.model.vocab_size)

    @torch.inference_mode()
    def log_p(self, states: States) -> Tensor:
        """log p_NMT of each position's own token, in chunks, so that few logits are held at once.  # [positions]"""
        chunks = zip(
            torch.split(states.hidden, self.chunk_rows), torch.split(states.tokens, self.chunk_rows), strict=True
        )
        return torch.cat([self.token_log_p(hidden, tokens) for hidden, tokens in chunks])

    def token_log_p(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """log p_NMT of one token per row; computes the logits of all rows at once.  # [rows]"""
        return self.project(hidden).log_p(tokens[:, None]).squeeze(1)

    def batches(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], budget: int | None = None
    ) -> Iterator[States]:
        """Teacher-forced states of all sentences, in batches of similar length."""
        budget = budget or (TOKENS_PER_CPU_BATCH if self.model.device.type == "cpu" else TOKENS_PER_BATCH)
        for batch in batches_by_tokens(sources, targets, budget):
            yield self.teacher_forced([sources[i] for i in batch], [targets[i] for i in batch], batch)

    @torch.inference_mode()
    def teacher_forced(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        sentences: NDArray[np.int64] | None = None,
    ) -> States:
        """One pass over a batch of encoded sentences; no logits are computed.

        Args:
            sentences: their indices, which the states repeat; 0, 1, … by default  # [batch]
        """
        return self.states_of(sources, targets, sentences)

    def states_of(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        sentences: NDArray[np.int64] | None = None,
    ) -> States:
        """The same as `teacher_forced`, but training can differentiate the states if the engine can."""
        model = self.model
        prefix = list(model.codec.prefix)
        # Never `labels`: FSMT would decode the shifted source. The decoder reads the target without its last token.
        decoder_input = model.pad([prefix + target[:-1] for target in targets])
        keys, hidden = self.decode_targets(*model.pad_sources(sources), decoder_input)
        forced = len(prefix) - 1  # positions whose token is given, not predicted
        lengths = np.array([len(target) for target in targets], dtype=np.int64)
        real = torch.arange(decoder_input.shape[1] - forced) < torch.from_numpy(lengths)[:, None]  # no padding
        real = real.to(model.device)
        hidden = hidden[:, forced:][real]
        return States(
            sentences=np.arange(len(targets)) if sentences is None else sentences,
            lengths=lengths,
            keys=keys[:, forced:][real] if model.key_layer == "ffn_input" else hidden,
            hidden=hidden,
            tokens=torch.tensor([token for target in targets for token in target], device=model.device),
        )
