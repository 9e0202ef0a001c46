"""Encoded sentence pairs, and the batches that training draws from them."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from knnmt.corpus import Pair
from knnmt.errors import FinetuneError
from knnmt.model import Codec, batches_by_tokens

_GULP = 4096  # pairs that are tokenized at once
_POOL = 4000  # sentences among which those of similar length are batched


class TokenRows(Sequence[list[int]]):
    """Rows of tokens in one array: lists would need nine times the memory."""

    def __init__(self, rows: Sequence[NDArray[np.int32]]) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.tokens: NDArray[np.int32] = np.concatenate(rows)
        self.starts = np.cumsum(self.lengths) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start = self.starts[index]
        row: list[int] = self.tokens[start : start + self.lengths[index]].tolist()
        return row

    def take(self, rows: NDArray[np.int64]) -> "TokenRows":
        return TokenRows([np.array(self[row], np.int32) for row in rows])


class Sentences:
    """Sentence pairs as token ids.

    Attributes:
        sources, targets: token ids of each sentence
        too_long: how many pairs were left out because they are longer than the model's maximum
    """

    def __init__(self, sources: TokenRows, targets: TokenRows, too_long: int = 0) -> None:
        self.sources, self.targets, self.too_long = sources, targets, too_long

    @classmethod
    def encode(cls, pairs: Iterable[Pair], codec: Codec, purpose: str) -> "Sentences":
        """Encode sentence pairs; `purpose`, `train` or `dev`, is for messages."""
        sources: list[NDArray[np.int32]] = []
        targets: list[NDArray[np.int32]] = []
        too_long = 0
        stream = iter(pairs)
        while gulp := list(islice(stream, _GULP)):
            encoded = zip(
                codec.encode_sources([pair.source for pair in gulp]),
                codec.encode_targets([pair.target for pair in gulp]),
                strict=True,
            )
            for source, target in encoded:
                if max(len(source), len(target)) > codec.max_length:
                    too_long += 1
                else:
                    sources.append(np.array(source, np.int32))
                    targets.append(np.array(target, np.int32))
        if not sources:
            advice = f"all {too_long} are longer than the model's maximum" if too_long else "give some"
            raise FinetuneError(f"Fine-tuning has no {purpose} sentence pairs: {advice}.")
        return cls(TokenRows(sources), TokenRows(targets), too_long)

    def sample(self, tokens: int) -> "Sentences":
        """A random part with at most `tokens` target tokens, always the same; at least one sentence."""
        order = np.random.default_rng(0).permutation(len(self))
        count = max(1, int((self.targets.lengths[order].cumsum() <= tokens).sum()))
        return Sentences(self.sources.take(order[:count]), self.targets.take(order[:count]), self.too_long)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def digest(self) -> str:
        """Of all tokens and where sentences end."""
        digest = hashlib.blake2b(digest_size=16)
        for rows in (self.sources, self.targets):
            digest.update(rows.lengths.tobytes())
            digest.update(rows.tokens.tobytes())
        return digest.hexdigest()

    def epoch(self, number: int, seed: int, budget: int) -> list[NDArray[np.int64]]:
        """The batches of an epoch, as indices of sentences, in an order that only `seed` and `number` decide.

        Args:
            budget: tokens per batch, source and target together, padding included
        """
        random = np.random.default_rng([seed, number])
        order = random.permutation(len(self))
        batches: list[NDArray[np.int64]] = []
        # Batches of the whole corpus sorted by length would have the same sentences in every epoch.
        for pool in np.array_split(order, max(1, len(order) // _POOL)):
            sources, targets = (
                [range(n) for n in self.sources.lengths[pool]],
                [range(n) for n in self.targets.lengths[pool]],
            )
            batches += [pool[batch] for batch in batches_by_tokens(sources, targets, budget)]
        return [batches[i] for i in random.permutation(len(batches))]

    def batches(
        self, seed: int, budget: int, epoch: int = 0, position: int = 0
    ) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Endless batches, each with the epoch and the position where the next one is; from a given place on."""
        while True:
            batches = self.epoch(epoch, seed, budget)
            for place in range(position, len(batches)):
                yield epoch, place + 1, batches[place]
            epoch, position = epoch + 1, 0
