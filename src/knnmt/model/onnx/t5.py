"""T5: positions are a bias of the attention, norms subtract no mean, linear maps have no bias."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.model.onnx.attention import AttendPast, CrossAttention, CrossCache, EncoderAttention, SelfAttention

FAMILIES = ("t5",)


class RelativeBias(nn.Module):
    """The attention bias between two positions."""

    def __init__(self, attention: Any, bidirectional: bool) -> None:
        super().__init__()
        self.table = attention.relative_attention_bias
        self.bucket = attention._relative_position_bucket
        self.options = {
            "bidirectional": bidirectional,
            "num_buckets": attention.relative_attention_num_buckets,
            "max_distance": attention.relative_attention_max_distance,
        }

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions of queries [n] and keys [m] → [1, heads, n, m]"""
        buckets = self.bucket(keys[None, :] - queries[:, None], **self.options)
        bias: Tensor = self.table(buckets).permute(2, 0, 1)[None]
        return bias


class EncoderLayer(nn.Module):
    def __init__(self, block: Any) -> None:
        super().__init__()
        self.attention = EncoderAttention(*_projections(block.layer[0].SelfAttention))
        self.attention_norm = block.layer[0].layer_norm
        self.norm, self.feed_forward = block.layer[-1].layer_norm, block.layer[-1].DenseReluDense

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), bias)
        out: Tensor = x + self.feed_forward(self.norm(x))
        return out


class DecoderLayer(nn.Module):
    def __init__(self, block: Any) -> None:
        super().__init__()
        self.own = SelfAttention(*_projections(block.layer[0].SelfAttention))
        query, _, _, out, heads, scale = _projections(block.layer[1].EncDecAttention)
        self.cross = CrossAttention(query, out, heads, scale)
        self.own_norm, self.cross_norm = block.layer[0].layer_norm, block.layer[1].layer_norm
        self.norm, self.feed_forward = block.layer[-1].layer_norm, block.layer[-1].DenseReluDense

    def forward(self, x: Tensor, own: AttendPast, mask: Tensor, cross: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        x = x + own(self.own_norm(x))
        x = x + self.cross(self.cross_norm(x), *cross, mask)
        entering = self.norm(x)
        return x + self.feed_forward(entering), entering


def _projections(attention: Any) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear, int, float]:
    return attention.q, attention.k, attention.v, attention.o, attention.n_heads, 1.0  # queries are not scaled


class Encoder(nn.Module):
    """From source vectors to the cross-attention keys and values of every decoder layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        part = model.get_encoder()
        self.bias = RelativeBias(part.block[0].layer[0].SelfAttention, bidirectional=True)
        self.layers = nn.ModuleList(EncoderLayer(block) for block in part.block)
        self.norm = part.final_layer_norm
        attentions = [block.layer[1].EncDecAttention for block in model.get_decoder().block]
        self.cross_caches = nn.ModuleList(CrossCache(a.k, a.v, a.n_heads) for a in attentions)

    def forward(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """x: vectors of the tokens [sentences, source, d]; mask: 0, or very low at padding [sentences, 1, 1, source]"""
        positions = torch.arange(x.shape[1])
        bias = self.bias(positions, positions) + mask
        for layer in self.layers:
            x = layer(x, bias)
        x = self.norm(x)
        return [part for cache in self.cross_caches for part in cache(x)]


class Decoder(nn.Module):
    """The decoder layers, and what comes before and after them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        part = model.get_decoder()
        self.bias = RelativeBias(part.block[0].layer[0].SelfAttention, bidirectional=False)
        self.layers = nn.ModuleList(DecoderLayer(block) for block in part.block)
        self.norm = part.final_layer_norm
        self.scale = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0

    def enter(self, vectors: Tensor, positions: Tensor) -> Tensor:
        return vectors  # T5 has positions only as a bias

    def leave(self, x: Tensor) -> Tensor:
        left: Tensor = self.norm(x) * self.scale
        return left

    def past_bias(self, position: Tensor, times: Tensor, ancestors: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.bias(position, times) + ancestors, self.bias(position, position)

    def among_bias(self, positions: Tensor, future: Tensor) -> Tensor:
        biased: Tensor = self.bias(positions, positions) + future
        return biased
