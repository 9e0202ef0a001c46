"""Rounding as some other processor might do it: noise on what models compute.

onnxruntime chooses its kernels by the processor and cannot be told to take others, and not every processor can be
imitated. So with KNNMT_ROUNDING=1e-6 the outputs of all linear maps and of all graphs are multiplied by 1 + 1e-6·ε,
which is more than any order of additions does. A decision that the noise turns was a near-tie. Tests of what is the
same to the bit are marked `to_the_bit` and left out.
"""

import zlib

import torch
from torch import Tensor
from torch.nn import functional

from knnmt.model.onnx import sessions

_noise = torch.Generator()


def restart(test: str) -> None:
    """The noise of a test is its own, whatever ran before it."""
    _noise.manual_seed(zlib.crc32(test.encode()))


def add_noise(size: float) -> None:
    """From now on, to everything in single precision; what is exported stays as it is."""
    linear, run = functional.linear, sessions.Graph.run

    def jitter(tensor: Tensor) -> Tensor:
        return tensor.mul(torch.randn(tensor.shape, generator=_noise).mul_(size).add_(1))

    def noisy_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        result = linear(inputs, weight, bias)
        exact = result.dtype != torch.float32 or torch.jit.is_tracing() or torch.onnx.is_in_onnx_export()  # type: ignore[attr-defined,no-untyped-call]
        return result if exact else jitter(result)

    def noisy_run(self: sessions.Graph, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
        run(self, inputs, outputs)
        for tensor in outputs.values():
            tensor.copy_(jitter(tensor))

    functional.linear = noisy_linear  # type: ignore[assignment]
    sessions.Graph.run = noisy_run  # type: ignore[method-assign]
