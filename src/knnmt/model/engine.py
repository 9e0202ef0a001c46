"""What runs a model: its decoder token by token, or over whole targets at once."""

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

_CHUNK_VALUES = 4_000_000  # logits held at once in the teacher-forced pass: 16 MB, and cache-friendly


class Purpose(Enum):
    """What an engine is wanted for; it is checked for that before it is used."""

    STEPS = "translating, token by token"
    TARGETS = "teacher forcing, whole targets at once"


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


@dataclass(frozen=True)
class StepStates:
    """The states that each row's next token is predicted from.

    Attributes:
        keys: what is searched for  # [rows, dim]
        hidden: what enters the output projection  # [rows, d_model]
    """

    keys: Tensor
    hidden: Tensor


class Decoder(ABC):
    """Some sentences in the middle of being translated; it begins with one row for each.

    States and logits may be overwritten by the next step.
    """

    @abstractmethod
    def step(self, tokens: Tensor) -> StepStates:
        """Read the rows' next tokens.  # tokens [rows, one or more]"""

    @abstractmethod
    def project(self, states: StepStates, tokens: Tensor | None = None) -> Logits:
        """The logits of the rows, float32: of all tokens, or of some.  # tokens [columns]"""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Go on with some of the rows, in this order, some of them perhaps several times.

        Every sentence that stays has as many rows as every other, one behind the other.
        """


class Engine(ABC):
    """A way to run a model.

    Attributes:
        model: what it runs
        name, precision: as they are written in stores and signatures
    """

    name: ClassVar[str]

    def __init__(self, model: TranslationModel, precision: str) -> None:
        self.model, self.precision = model, precision

    @abstractmethod
    def start(self, sources: Sequence[list[int]]) -> Decoder:
        """Encode a batch of sources."""

    @abstractmethod
    def decode_targets(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and what enters the output projection, at every position of given targets.

        Args:
            ids, mask: of the sources  # [batch, source length]
            decoder_input: what the decoder reads  # [batch, length]

        Returns:
            [batch, length, dim] and [batch, length, d_model]
        """

    @abstractmethod
    def project(self, hidden: Tensor, tokens: Tensor | None = None) -> Logits:
        """The logits of some states: of all tokens, or of some.  # hidden [rows, d_model], tokens [columns]"""

    @property
    def chunk_rows(self) -> int:
        """How many rows × vocabulary are worth having at once."""
        return max(16, _CHUNK_VALUES // self.model.vocab_size)

    @torch.inference_mode()
    def log_p(self, states: States) -> Tensor:
        """log p_NMT of each position's own token, in chunks that touch the vocabulary once.  # [positions]"""
        chunks = zip(
            torch.split(states.hidden, self.chunk_rows), torch.split(states.tokens, self.chunk_rows), strict=True
        )
        return torch.cat([self.token_log_p(hidden, tokens) for hidden, tokens in chunks])

    def token_log_p(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """log p_NMT of one token per row; makes all rows × vocabulary at once.  # [rows]"""
        return self.project(hidden).log_p(tokens[:, None]).squeeze(1)

    def batches(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], budget: int | None = None
    ) -> Iterator[States]:
        """Teacher-forced states of all sentences, in batches of like length."""
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
        """One pass over a batch of encoded sentences; the vocabulary is not touched.

        Args:
            sentences: their numbers, as the states carry them; 0, 1, … by default  # [batch]
        """
        model = self.model
        prefix = list(model.codec.prefix)
        # Never `labels`: FSMT would decode the shifted source. The target without its end is what goes in.
        decoder_input = model.pad([prefix + target[:-1] for target in targets])
        keys, hidden = self.decode_targets(*model.pad_sources(sources), decoder_input)
        given = len(prefix) - 1  # positions whose prediction is forced, not the model's
        lengths = np.array([len(target) for target in targets], dtype=np.int64)
        real = torch.arange(decoder_input.shape[1] - given) < torch.from_numpy(lengths)[:, None]  # no padding
        real = real.to(model.device)
        chosen = hidden[:, given:][real]
        return States(
            sentences=np.arange(len(targets)) if sentences is None else sentences,
            lengths=lengths,
            keys=keys[:, given:][real] if model.key_layer == "ffn_input" else chosen,
            hidden=chosen,
            tokens=torch.tensor([token for target in targets for token in target], device=model.device),
        )
