"""Logits of all tokens and of some, against torch's own functions."""

from typing import Any

import pytest
import torch
from tolerances import SINGLE

from knnmt.model import Logits


def drawn(columns: int, rows: int = 7) -> torch.Tensor:
    return 4 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns))


@pytest.mark.parametrize("columns", [10, 640, 6_400, 6_437])
def test_the_highest_entries_of_long_rows(columns: int) -> None:
    values = drawn(columns)
    values[0, -3:] = 9.0  # in what is left over behind the blocks
    values[1, :5] = 9.0  # all in one block
    values[2] = -torch.inf
    values[2, 3] = 0.0
    values[3] = values[3].round()  # ties
    log_p, tokens = Logits(values).highest(8)
    expected = values.log_softmax(1).topk(8, dim=1).values
    torch.testing.assert_close(log_p, expected, rtol=SINGLE, atol=SINGLE)
    assert torch.equal(values.gather(1, tokens), values.topk(8, dim=1).values)
    assert all(len(set(row)) == 8 for row in tokens.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_log_p(dtype: torch.dtype) -> None:
    values = drawn(2000).to(dtype)
    logits, tokens = Logits(values), torch.tensor([[3, 1999, 3]]).expand(7, -1)
    expected = values.double().log_softmax(1)
    torch.testing.assert_close(logits.log_sum_exp.double(), values.double().logsumexp(1), rtol=SINGLE, atol=SINGLE)
    torch.testing.assert_close(logits.log_p(tokens).double(), expected.gather(1, tokens), rtol=SINGLE, atol=SINGLE)
    assert torch.equal(logits.of(tokens), values.gather(1, tokens).float())
    total = expected.clamp_min(-9).sum(1)
    torch.testing.assert_close(logits.log_p_sum(-9).double(), total, rtol=SINGLE, atol=SINGLE)


def test_columns_of_some_tokens() -> None:
    values, tokens = drawn(5), torch.tensor([70, 3, 900, 0, 41])
    few = Logits(values, tokens)
    asked = torch.tensor([[900, 5, 0, 41, 2000, 70, 3]]).expand(7, -1)
    assert torch.equal(few.of(asked)[:, [0, 2, 3, 5, 6]], values[:, [2, 3, 4, 0, 1]])
    assert few.of(asked)[:, [1, 4]].isneginf().all(), "tokens without a column"
    assert few.log_p(asked)[:, [1, 4]].isneginf().all()
    log_p, best = few.highest(5)
    shares = values.log_softmax(1)
    for row in range(7):
        order = values[row].argsort(descending=True)
        assert best[row].tolist() == tokens[order].tolist()
        torch.testing.assert_close(log_p[row], shares[row, order], rtol=SINGLE, atol=SINGLE)


def test_the_vocabulary_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def watch(name: str) -> None:
        real = getattr(torch.Tensor, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            looked.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(torch.Tensor, name, counted)

    watch("softmax")
    watch("topk")
    logits = Logits(drawn(100))
    logits.read_highest(8)
    for count in (3, 8, 1):
        assert logits.highest(count)[1].shape == (7, count)
    assert logits.log_p(torch.zeros(7, 1, dtype=torch.int64)).shape == (7, 1)
    assert sorted(looked) == ["softmax", "topk"]
