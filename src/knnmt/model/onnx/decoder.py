"""The two ways to run a decoder: token by token with a cache, or over whole targets at once."""

from typing import Any

import torch
from torch import Tensor, nn

from knnmt.model.onnx.attention import AttendPast

LOW = -1e9  # added to attention scores of hidden positions


class DecoderRun(nn.Module):
    """All layers of a family's decoder, one after the other.

    Args:
        decoder: a family's `Decoder`
        key_layer: `output` or `ffn_input`
    """

    def __init__(self, decoder: Any, key_layer: str) -> None:
        super().__init__()
        self.decoder = decoder
        self.feed_forward_key = key_layer == "ffn_input"

    def run(self, x: Tensor, own: list[AttendPast], mask: Tensor, cross: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The keys and the inputs of the output projection.  # both [sentences, width, d]"""
        entering = x
        for number, layer in enumerate(self.decoder.layers):
            x, entering = layer(x, own[number], mask, cross[2 * number : 2 * number + 2])
        hidden = self.decoder.leave(x)
        return (entering if self.feed_forward_key else hidden), hidden


class DecoderStep(DecoderRun):
    """One more token for every hypothesis."""

    def forward(  # type: ignore[no-untyped-def]
        self, vectors: Tensor, position: Tensor, times: Tensor, ancestors: Tensor, mask: Tensor, *cache: Tensor
    ):
        """
        Args:
            vectors: of the tokens  # [sentences, width, d]
            position: of these tokens  # [1]
            times: the position of the token in each slot  # [slots]
            ancestors: 0 if a slot belongs to the past of a hypothesis, else very low  # [sentences, 1, width, slots]
            mask: of the sources  # [sentences, 1, 1, source]
            cache: past keys and values of each layer, then cross-attention keys and values of each layer
        """
        layers = self.decoder.layers
        biases = self.decoder.past_bias(position, times, ancestors)
        new: list[Tensor] = []

        def own(layer: int) -> AttendPast:
            def attend(x: Tensor) -> Tensor:
                attended, key, value = layers[layer].own(x, *cache[2 * layer : 2 * layer + 2], *biases)
                new.extend((key, value))
                return attended  # type: ignore[no-any-return]

            return attend

        x = self.decoder.enter(vectors, position)
        keys, hidden = self.run(x, [own(i) for i in range(len(layers))], mask, list(cache[2 * len(layers) :]))
        return keys, hidden, *new


class DecoderTargets(DecoderRun):
    """Every position of whole targets."""

    def forward(self, vectors: Tensor, mask: Tensor, *cross: Tensor) -> tuple[Tensor, Tensor]:
        """
        Args:
            vectors: of the tokens that the decoder reads  # [sentences, length, d]
            mask: of the sources  # [sentences, 1, 1, source]
            cross: cross-attention keys and values of each layer
        """
        positions = torch.arange(vectors.shape[1])
        future = (positions[None, :] > positions[:, None]).float()[None, None] * LOW
        bias = self.decoder.among_bias(positions, future)
        x = self.decoder.enter(vectors, positions)
        return self.run(x, [_among(layer.own, bias) for layer in self.decoder.layers], mask, list(cross))


def _among(attention: Any, bias: Tensor) -> AttendPast:
    return lambda x: attention.among(x, bias)
