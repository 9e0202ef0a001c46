"""Attention over whole sentences, and as a decoder step needs it: all hypotheses of a sentence look into one cache."""

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
    """Linear maps of the same input as one, each with a factor: the input is read and quantised once."""
    bias = linears[0].bias is not None
    rows = sum(linear.out_features for linear in linears)
    joined = nn.Linear(linears[0].in_features, rows, bias=bias)
    joined.weight.data = torch.cat([linear.weight * scale for linear, scale in zip(linears, scales, strict=True)])
    if bias:
        joined.bias.data = torch.cat([linear.bias * scale for linear, scale in zip(linears, scales, strict=True)])
    return joined


class _OwnAttention(nn.Module):
    """Queries, keys and values of the same input."""

    def __init__(self, query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Linear, heads: int, scale: float):
        super().__init__()
        self.heads = heads
        self.inner = query.out_features
        self.into = stacked([query, key, value], [scale, 1.0, 1.0])
        self.out = out

    def parts(self, x: Tensor) -> list[Tensor]:
        return [split_heads(part, self.heads) for part in torch.split(self.into(x), self.inner, 2)]

    def among(self, x: Tensor, bias: Tensor) -> Tensor:
        """Whole sentences: every position sees those for which the bias is not very low."""
        query, key, value = self.parts(x)
        shares = (query @ key.transpose(2, 3) + bias).softmax(3)
        context: Tensor = self.out(join_heads(shares @ value))
        return context


class SelfAttention(_OwnAttention):
    """Of a decoder: a hypothesis sees the slots of its own past, and itself.

    The keys and values of every hypothesis that a sentence ever had stay where they were written, in slots; which of
    them are a hypothesis' own is a mask. So nothing is moved when hypotheses are dropped or split.
    """

    def forward(self, x: Tensor, past_key: Tensor, past_value: Tensor, past_bias: Tensor, own_bias: Tensor | None):  # type: ignore[no-untyped-def]
        """
        Args:
            x: [sentences, width, d]
            past_key, past_value: [sentences, heads, slots, d / heads]
            past_bias: 0 where a hypothesis may look, very low elsewhere  # [sentences, 1 or heads, width, slots]
            own_bias: of the position itself, where a family has one  # [1, heads, 1, 1]
        """
        query, key, value = self.parts(x)
        past = query @ past_key.transpose(2, 3) + past_bias
        own = (query * key).sum(3, keepdim=True)
        if own_bias is not None:
            own = own + own_bias
        shares = torch.cat([own, past], 3).softmax(3)
        context = shares[:, :, :, 1:] @ past_value + shares[:, :, :, :1] * value
        return self.out(join_heads(context)), key, value


class CrossAttention(nn.Module):
    """Of a decoder: all hypotheses of a sentence see its source."""

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
        shares = (split_heads(self.query(x), self.heads) @ key + mask).softmax(3)
        context: Tensor = self.out(join_heads(shares @ value))
        return context


class EncoderAttention(_OwnAttention):
    """Of an encoder: every position sees every other that is no padding."""

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.among(x, bias)


class CrossCache(nn.Module):
    """The keys and values of an encoded source that a decoder layer's cross attention looks at."""

    def __init__(self, key: nn.Linear, value: nn.Linear, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = key.out_features
        self.into = stacked([key, value], [1.0, 1.0])

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        key, value = (split_heads(part, self.heads) for part in self.into(encoded).split(self.inner, 2))
        return key.transpose(2, 3).contiguous(), value.contiguous()
