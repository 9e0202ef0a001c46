"""A decoder run by ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from knnmt.model.onnx.export import DECODER, ENCODER
from knnmt.model.stepping import Step
from knnmt.model.translation_model import TranslationModel

_LOW = -1e9  # added to what must not be looked at
_SLOTS = 64  # the caches grow by so many at a time
_KINDS = {torch.int64: np.int64, torch.float32: np.float32}


class OnnxStepper:
    """Runs the graphs that `export` wrote; what a translation needs is in its decoder."""

    def __init__(self, model: TranslationModel, directory: Path, precision: str) -> None:
        self.name = f"onnx-{precision}"
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # a thread that waits must not take the core from the search
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(directory / name), options, providers=["CPUExecutionProvider"])
            for name in (ENCODER, DECODER)
        )
        self.crosses = [output.name for output in self.encoder.get_outputs()]
        self.inputs = [each.name for each in self.decoder.get_inputs()]  # what a family does not need was left out
        self.news = [output.name for output in self.decoder.get_outputs()][2:]
        shape = next(each.shape for each in self.decoder.get_inputs() if each.name == "past_key_0")
        self.heads, self.size = int(shape[1]), int(shape[3])

    def start(self, sources: Sequence[list[int]]) -> "OnnxDecoder":
        return OnnxDecoder(self, sources)


class OnnxDecoder:
    """Inputs and outputs are tensors of ours, bound in place: nothing is copied but what a step adds to the caches."""

    def __init__(self, engine: OnnxStepper, sources: Sequence[list[int]]) -> None:
        self.engine = engine
        ids, mask = engine.model.pad_sources(sources)
        self.mask = ((1 - mask.float()) * _LOW)[:, None, None, :].contiguous()
        found = engine.encoder.run(engine.crosses, {"ids": ids.numpy(), "mask": self.mask.numpy()})
        self.cross = [torch.from_numpy(each) for each in found]
        self.width = 1
        self.position = self.used = 0
        self.past = [torch.zeros(len(sources), engine.heads, _SLOTS, engine.size) for _ in engine.news]
        self.ancestors = torch.full((len(sources), 1, 1, _SLOTS), _LOW)
        self.times = torch.zeros(_SLOTS, dtype=torch.int64)
        self.outputs: dict[str, Tensor] = {}

    def step(self, tokens: Tensor) -> Step:
        for column in tokens.unbind(1):
            self._step(column)
        return Step(self.outputs["keys"].flatten(0, 1), self.outputs["logits"].flatten(0, 1))

    def select(self, rows: Tensor) -> None:
        sentences = rows // self.width
        stay = torch.unique_consecutive(sentences)
        width = len(rows) // len(stay)
        self.ancestors = self.ancestors[sentences, 0, rows % self.width].view(len(stay), 1, width, -1)
        if len(stay) < len(self.mask):
            self.mask = self.mask[stay]
            self.cross = [each[stay] for each in self.cross]
            self.past = [each[stay] for each in self.past]
        self.width = width

    def _step(self, tokens: Tensor) -> None:
        sentences, width = len(self.mask), self.width
        if self.used + width > len(self.times):
            self._grow()
        inputs = {
            "tokens": tokens.view(sentences, width).contiguous(),
            "position": torch.tensor([self.position]),
            "times": self.times,
            "ancestors": self.ancestors,
            "mask": self.mask,
        }
        inputs |= dict(zip(self.engine.crosses, self.cross, strict=True))
        inputs |= {name.replace("new", "past"): each for name, each in zip(self.engine.news, self.past, strict=True)}
        binding = self.engine.decoder.io_binding()
        for name in self.engine.inputs:
            _bind(binding.bind_input, name, inputs[name])
        for name, tensor in self._room(sentences, width).items():
            _bind(binding.bind_output, name, tensor)
        self.engine.decoder.run_with_iobinding(binding)
        slots = slice(self.used, self.used + width)
        for past, name in zip(self.past, self.engine.news, strict=True):
            past[:, :, slots] = self.outputs[name]
        own = torch.arange(width)
        self.ancestors[:, 0, own, self.used + own] = 0.0
        self.times[slots] = self.position
        self.used += width
        self.position += 1

    def _room(self, sentences: int, width: int) -> dict[str, Tensor]:
        """Where the outputs go: the same memory as long as as many hypotheses are left."""
        model = self.engine.model
        if not self.outputs or self.outputs["logits"].shape[:2] != (sentences, width):
            self.outputs = {
                "keys": torch.empty(sentences, width, model.dim),
                "logits": torch.empty(sentences, width, model.vocab_size),
            }
            of_new = (sentences, self.engine.heads, width, self.engine.size)
            self.outputs |= {name: torch.empty(of_new) for name in self.engine.news}
        return self.outputs

    def _grow(self) -> None:
        self.past = [torch.nn.functional.pad(each, (0, 0, 0, _SLOTS)) for each in self.past]
        self.ancestors = torch.nn.functional.pad(self.ancestors, (0, _SLOTS), value=_LOW)
        self.times = torch.nn.functional.pad(self.times, (0, _SLOTS))


def _bind(bind: Any, name: str, tensor: Tensor) -> None:
    bind(name, "cpu", 0, _KINDS[tensor.dtype], list(tensor.shape), tensor.data_ptr())
