"""Batches by token count."""

import numpy as np
import pytest

from knnmt.model import batches_by_tokens


@pytest.mark.parametrize("rows", [None, 5])
def test_every_sentence_is_in_one_batch_within_the_budget(rows: int | None) -> None:
    rng = np.random.default_rng(0)
    sources = [[0] * int(n) for n in rng.integers(1, 60, 200)]
    targets = [[0] * int(n) for n in rng.integers(1, 60, 200)]
    targets[7] = [0] * 500
    batches = batches_by_tokens(sources, targets, budget=300, rows=rows)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch in batches:
        widest = max(len(sources[i]) for i in batch) + max(len(targets[i]) for i in batch)
        assert len(batch) == 1 or widest * len(batch) <= 300
        assert rows is None or len(batch) <= rows
    padded = sum(len(batch) * max(len(targets[i]) for i in batch) for batch in batches)
    assert padded < 1.2 * sum(map(len, targets)), "like lengths go together"


def test_no_sentences_make_no_batches() -> None:
    assert batches_by_tokens([]) == []
