"""The logits of the next token, for all tokens or for some."""

import torch
from torch import Tensor

_BLOCK = 64  # columns per block; `_top` compares the maxima of blocks first


class Logits:
    """The logits of some rows. Results are cached, so that the vocabulary is read only once.

    A log p is normalised over the tokens that have a column: if all tokens have one, it is log p_NMT.

    Args:
        values: [rows, columns]
        tokens: the token of each column, without repetition; None if column i is token i  # [columns]
    """

    def __init__(self, values: Tensor, tokens: Tensor | None = None) -> None:
        self.values, self.tokens = values, tokens
        self._highest = values[:, :0], values[:, :0]  # the highest found so far, and their columns
        self._log_sum_exp: Tensor | None = None
        self._sorted: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> int:
        return self.values.shape[1]

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def log_sum_exp(self) -> Tensor:
        """float32 [rows]"""
        if self._log_sum_exp is None:
            self.read_highest(1)
            best, column = self._highest[0][:, :1], self._highest[1][:, :1]
            # from the probability of the highest entry: torch's softmax takes one pass, its logsumexp several
            p = self.values.softmax(1, dtype=torch.float32).gather(1, column)
            self._log_sum_exp = (best.float() - p.log()).squeeze(1)
        return self._log_sum_exp

    def highest(self, count: int) -> tuple[Tensor, Tensor]:
        """The highest log p's of each row, descending, and their tokens.  # both [rows, count]"""
        self.read_highest(count)
        values, columns = self._highest[0][:, :count], self._highest[1][:, :count]
        log_p = values.float() - self.log_sum_exp[:, None]
        return log_p, columns if self.tokens is None else self.tokens[columns]

    def read_highest(self, count: int) -> None:
        """Find the `count` highest entries of each row now, so that later calls for fewer reuse them."""
        if self._highest[0].shape[1] < count:
            self._highest = _top(self.values, count)

    def of(self, tokens: Tensor) -> Tensor:
        """The logits of some tokens; −inf if a token has no column.  # tokens [rows, n] → float32 [rows, n]"""
        if self.tokens is None:
            return self.values.gather(1, tokens).float()
        if self._sorted is None:
            self._sorted = self.tokens.sort()
        ascending, columns = self._sorted
        rank = torch.searchsorted(ascending, tokens.contiguous()).clamp_max(self.columns - 1)
        found = self.values.gather(1, columns[rank]).float()
        return found.masked_fill(ascending[rank] != tokens, -torch.inf)

    def log_p(self, tokens: Tensor) -> Tensor:
        """log p of some tokens; −inf if a token has no column.  # tokens [rows, n] → float32 [rows, n]"""
        return self.of(tokens) - self.log_sum_exp[:, None]

    def log_p_sum(self, lowest: float) -> Tensor:
        """Σ log p over all columns; a log p below `lowest` counts as `lowest`.  # [rows]"""
        return self.values.float().sub(self.log_sum_exp[:, None]).clamp_min_(lowest).sum(1)


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`topk` of each row, several times faster for long rows.

    The `count` highest entries are all in the `count` blocks with the highest maxima, so only these are searched.
    """
    rows, width = values.shape
    blocks = width // _BLOCK
    if blocks < 4 * count:
        return values.topk(count, dim=1)
    whole = values[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK)
    chosen = whole.amax(2).topk(count, dim=1).indices
    columns = (chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=values.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, width, device=values.device)
    columns = torch.cat([columns, rest.expand(rows, -1)], 1)
    highest, order = values.gather(1, columns).topk(count, dim=1)
    return highest, columns.gather(1, order)
