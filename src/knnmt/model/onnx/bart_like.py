"""Marian, BART, mBART, M2M100, NLLB and FSMT: one architecture with different norms, positions and scales."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from knnmt.model.onnx.attention import AttendPast, CrossAttention, CrossCache, EncoderAttention, SelfAttention

FAMILIES = ("marian", "bart", "mbart", "m2m_100", "fsmt")
_PRE_NORM = ("mbart", "m2m_100")  # these normalise before each block, the others after it


class Embedding(nn.Module):
    """The input of the first layer, from token vectors and positions."""

    def __init__(self, part: Any, config: Any) -> None:
        super().__init__()
        self.positions = _positions(part.embed_positions, config)
        # transformers scales in the embedding module or after it, depending on the family
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.norm = getattr(part, "layernorm_embedding", None) or nn.Identity()

    def forward(self, vectors: Tensor, positions: Tensor) -> Tensor:
        normed: Tensor = self.norm(vectors * self.scale + nn.functional.embedding(positions, self.positions))
        return normed


def _positions(module: Any, config: Any) -> Tensor:
    """The embeddings of the positions 0, 1, …  # [positions, d_model]"""
    if config.model_type == "m2m_100":
        table, first = module.weights, config.pad_token_id + 1
    elif config.model_type == "fsmt":
        table, first = module.weight, module.padding_idx + 1
    else:
        table, first = module.weight, getattr(module, "offset", 0)
    return nn.Parameter(table.detach()[first:].clone(), requires_grad=False)


class EncoderLayer(nn.Module):
    def __init__(self, layer: Any, pre_norm: bool) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = EncoderAttention(*_projections(layer.self_attn))
        self.attention_norm, self.final_norm = layer.self_attn_layer_norm, layer.final_layer_norm
        self.fc1, self.fc2, self.activation = layer.fc1, layer.fc2, layer.activation_fn

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.pre_norm:
            x = x + self.attention(self.attention_norm(x), mask)
            out: Tensor = x + self.fc2(self.activation(self.fc1(self.final_norm(x))))
            return out
        x = self.attention_norm(x + self.attention(x, mask))
        out = self.final_norm(x + self.fc2(self.activation(self.fc1(x))))
        return out


class DecoderLayer(nn.Module):
    def __init__(self, layer: Any, pre_norm: bool) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.own = SelfAttention(*_projections(layer.self_attn))
        query, _, _, out, heads, scale = _projections(layer.encoder_attn)
        self.cross = CrossAttention(query, out, heads, scale)
        self.own_norm, self.cross_norm = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm
        self.final_norm = layer.final_layer_norm
        self.fc1, self.fc2, self.activation = layer.fc1, layer.fc2, layer.activation_fn

    def forward(self, x: Tensor, own: AttendPast, mask: Tensor, cross: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        attended = own(self.own_norm(x) if self.pre_norm else x)
        x = x + attended if self.pre_norm else self.own_norm(x + attended)
        attended = self.cross(self.cross_norm(x) if self.pre_norm else x, *cross, mask)
        x = x + attended if self.pre_norm else self.cross_norm(x + attended)
        entering = self.final_norm(x) if self.pre_norm else x  # the key layer `ffn_input`
        forward = self.fc2(self.activation(self.fc1(entering)))
        return (x + forward if self.pre_norm else self.final_norm(x + forward)), entering


def _projections(attention: Any) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear, int, float]:
    heads = attention.num_heads
    scale = (attention.q_proj.out_features // heads) ** -0.5
    return attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj, heads, scale


class Encoder(nn.Module):
    """From source vectors to the cross-attention keys and values of every decoder layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config, part = model.config, model.get_encoder()
        self.embedding = Embedding(part, config)
        self.layers = nn.ModuleList(EncoderLayer(layer, config.model_type in _PRE_NORM) for layer in part.layers)
        self.norm = getattr(part, "layer_norm", None) or nn.Identity()
        attentions = [layer.encoder_attn for layer in model.get_decoder().layers]
        self.cross_caches = nn.ModuleList(CrossCache(a.k_proj, a.v_proj, a.num_heads) for a in attentions)

    def forward(self, vectors: Tensor, mask: Tensor) -> list[Tensor]:
        """vectors: of the tokens [sentences, source, d]; mask: 0, or very low at padding [sentences, 1, 1, source]"""
        x = self.embedding(vectors, torch.arange(vectors.shape[1]))
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        return [part for cache in self.cross_caches for part in cache(x)]


class Decoder(nn.Module):
    """The decoder layers, and what comes before and after them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config, part = model.config, model.get_decoder()
        self.embedding = Embedding(part, config)
        self.layers = nn.ModuleList(DecoderLayer(layer, config.model_type in _PRE_NORM) for layer in part.layers)
        self.norm = getattr(part, "layer_norm", None) or nn.Identity()

    def enter(self, vectors: Tensor, positions: Tensor) -> Tensor:
        entered: Tensor = self.embedding(vectors, positions)
        return entered

    def leave(self, x: Tensor) -> Tensor:
        left: Tensor = self.norm(x)
        return left

    def past_bias(self, position: Tensor, times: Tensor, ancestors: Tensor) -> tuple[Tensor, Tensor | None]:
        return ancestors, None

    def among_bias(self, positions: Tensor, future: Tensor) -> Tensor:
        return future
