"""Attention over whole sentences, and for decoder steps, where all hypotheses of a sentence share one cache."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

AttendPast = Callable[[Tensor], Tensor]  # a decoder layer's attention to its own past


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[sentences, width, d] → [sentences, heads, width, d / heads]"""
    sentences, width, dim = x.shape
    return x.view(sentences, width, heads, dim // heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[sentences, heads, width, d / heads] → [sentences, width, d]"""
    return x.transpose(1, 2).flatten(2)


def stacked(linears: list[nn.Linear], scales: list[float]) -> nn.Linear:
    """Join linear maps of the same input into one, each scaled: the input is read and quantised once."""
    bias = linears[0].bias is not None
    rows = sum(linear.out_features for linear in linears)
    joined = nn.Linear(linears[0].in_features, rows, bias=bias)
    joined.weight.data = torch.cat([linear.weight * scale for linear, scale in zip(linears, scales, strict=True)])
    if bias:
        joined.bias.data = torch.cat([linear.bias * scale for linear, scale in zip(linears, scales, strict=True)])
    return joined


class _OwnAttention(nn.Module):
    """Attention whose queries, keys and values come from the same input."""

    def __init__(self, query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Linear, heads: int, scale: float):
        super().__init__()
        self.heads = heads
        self.inner = query.out_features
        self.into = stacked([query, key, value], [scale, 1.0, 1.0])
        self.out = out

    def parts(self, x: Tensor) -> list[Tensor]:
        return [split_heads(part, self.heads) for part in torch.split(self.into(x), self.inner, 2)]

    def among(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend within whole sentences: a very low bias hides a position from another."""
        query, key, value = self.parts(x)
        weights = (query @ key.transpose(2, 3) + bias).softmax(3)
        context: Tensor = self.out(join_heads(weights @ value))
        return context


class SelfAttention(_OwnAttention):
    """Self-attention of a decoder: a hypothesis attends to its own past and to itself.

    All hypotheses of a sentence write their keys and values into the slots of one cache, where they stay. A mask says
    which slots belong to a hypothesis. So nothing is moved when hypotheses are dropped or split.
    """

    def forward(self, x: Tensor, past_key: Tensor, past_value: Tensor, past_bias: Tensor, own_bias: Tensor | None):  # type: ignore[no-untyped-def]
        """
        Args:
            x: [sentences, width, d]
            past_key, past_value: [sentences, heads, slots, d / heads]
            past_bias: 0 at slots of the hypothesis, very low elsewhere  # [sentences, 1 or heads, width, slots]
            own_bias: for the position itself, if the family has one  # [1, heads, 1, 1]
        """
        query, key, value = self.parts(x)
        past = query @ past_key.transpose(2, 3) + past_bias
        own = (query * key).sum(3, keepdim=True)
        if own_bias is not None:
            own = own + own_bias
        weights = torch.cat([own, past], 3).softmax(3)
        context = weights[:, :, :, 1:] @ past_value + weights[:, :, :, :1] * value
        return self.out(join_heads(context)), key, value


class CrossAttention(nn.Module):
    """Cross attention of a decoder: all hypotheses of a sentence attend to its source."""

    def __init__(self, query: nn.Linear, out: nn.Linear, heads: int, scale: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = stacked([query], [scale])
        self.out = out

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """
        Args:
            key: [sentences, heads, d / heads, source]
            value: [sentences, heads, source, d / heads]
            mask: [sentences, 1, 1, source]
        """
        weights = (split_heads(self.query(x), self.heads) @ key + mask).softmax(3)
        context: Tensor = self.out(join_heads(weights @ value))
        return context


class EncoderAttention(_OwnAttention):
    """Self-attention of an encoder: each position attends to all positions except padding."""

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.among(x, bias)


class CrossCache(nn.Module):
    """The keys and values of an encoded source for the cross attention of one decoder layer."""

    def __init__(self, key: nn.Linear, value: nn.Linear, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = key.out_features
        self.into = stacked([key, value], [1.0, 1.0])

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        key, value = (split_heads(part, self.heads) for part in self.into(encoded).split(self.inner, 2))
        return key.transpose(2, 3).contiguous(), value.contiguous()
