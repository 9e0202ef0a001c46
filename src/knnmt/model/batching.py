"""Batches of sentences of similar length: they need little padding, and their memory is bounded."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TOKENS_PER_BATCH = 4096
TOKENS_PER_CPU_BATCH = 1024  # a larger batch is not faster on a CPU and needs more padding


def batches_by_tokens(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    budget: int = TOKENS_PER_BATCH,
    rows: int | None = None,
) -> list[NDArray[np.int64]]:
    """Indices of the sentences of each batch, longest batch first.

    A batch has at most `budget` tokens, source and target together, padding included; only a single longer sentence
    exceeds it. A batch has at most `rows` sentences.
    """
    source_lengths = np.array([len(source) for source in sources], dtype=np.int64)
    target_lengths = np.array([len(t) for t in targets], dtype=np.int64) if targets is not None else source_lengths * 0
    order = np.lexsort((source_lengths, target_lengths))[::-1]
    batches: list[NDArray[np.int64]] = []
    start, widest_source, widest_target = 0, 0, 0
    for end, index in enumerate(order):
        widest_source = max(widest_source, int(source_lengths[index]))
        widest_target = max(widest_target, int(target_lengths[index]))
        size = end - start + 1
        too_many = size * (widest_source + widest_target) > budget or (rows is not None and size > rows)
        if too_many and end > start:
            batches.append(order[start:end])
            start, widest_source, widest_target = end, int(source_lengths[index]), int(target_lengths[index])
    if start < len(order):
        batches.append(order[start:])
    return batches
