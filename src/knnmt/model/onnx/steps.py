"""Run a decoder step by step with ONNX Runtime."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from knnmt.model.engine import Decoder, StepStates
from knnmt.model.logits import Logits
from knnmt.model.onnx.decoder import LOW

if TYPE_CHECKING:
    from knnmt.model.onnx.engine import OnnxEngine

_SLOTS = 32  # the caches grow by this many at a time


class OnnxDecoder(Decoder):
    """A step copies only its new keys and values, into the caches."""

    def __init__(self, engine: "OnnxEngine", ids: Tensor, mask: Tensor) -> None:
        self.engine = engine
        self.mask, self.cross = engine.encode(ids, mask)
        self.width = 1
        self.position = self.used = 0
        _, heads, size, _ = self.cross["cross_key_0"].shape
        past = (len(ids), heads, _SLOTS, size)
        self.past = {name.replace("cross", "past"): torch.zeros(past) for name in self.cross}
        self.ancestors = torch.full((len(ids), 1, 1, _SLOTS), LOW)
        self.times = torch.zeros(_SLOTS, dtype=torch.int64)
        self.outputs: dict[str, Tensor] = {}
        self.logits = torch.empty(0)

    def step(self, tokens: Tensor) -> StepStates:
        for column in tokens.unbind(1):
            self._step(column)
        return StepStates(self.outputs["keys"].flatten(0, 1), self.outputs["hidden"].flatten(0, 1))

    def project(self, states: StepStates, tokens: Tensor | None = None) -> Logits:
        """Like `OnnxEngine.project`; reuses its memory while the number of hypotheses is the same."""
        shape = (len(self.mask), self.width, self.engine.model.vocab_size)
        if self.logits.shape != shape:
            self.logits = torch.empty(shape)
        self.engine.project_into(self.logits, states.hidden.view(*shape[:2], -1))
        values = self.logits.flatten(0, 1)
        return Logits(values) if tokens is None else Logits(values[:, tokens], tokens)

    def select(self, rows: Tensor) -> None:
        sentences = rows // self.width
        stay = torch.unique_consecutive(sentences)
        width = len(rows) // len(stay)
        self.ancestors = self.ancestors[sentences, 0, rows % self.width].view(len(stay), 1, width, -1)
        if not torch.equal(stay, torch.arange(len(self.mask))):
            self.mask = _move_up(self.mask, stay)
            self.cross = {name: _move_up(each, stay) for name, each in self.cross.items()}
            self.past = {name: _move_up(each, stay) for name, each in self.past.items()}
        self.width = width

    def _step(self, tokens: Tensor) -> None:
        sentences, width = len(self.mask), self.width
        if self.used + width > len(self.times):
            self._grow(max(_SLOTS, width))
        inputs = {
            "vectors": embedding(tokens.view(sentences, width), self.engine.target_vectors),
            "position": torch.tensor([self.position]),
            "times": self.times,
            "ancestors": self.ancestors,
            "mask": self.mask,
        }
        outputs = self._output_tensors(sentences, width)
        self.engine.sessions.step.run(inputs | self.past | self.cross, outputs)
        slots = slice(self.used, self.used + width)
        for name, past in self.past.items():
            past[:, :, slots] = outputs[name.replace("past", "new")]
        own = torch.arange(width)
        self.ancestors[:, 0, own, self.used + own] = 0.0
        self.times[slots] = self.position
        self.used += width
        self.position += 1

    def _output_tensors(self, sentences: int, width: int) -> dict[str, Tensor]:
        """Tensors for the outputs; the same memory while the number of hypotheses is the same."""
        if not self.outputs or self.outputs["hidden"].shape[:2] != (sentences, width):
            _, heads, _, size = self.past["past_key_0"].shape
            dim = self.engine.model.dim
            self.outputs = {"keys": torch.empty(sentences, width, dim), "hidden": torch.empty(sentences, width, dim)}
            new = (sentences, heads, width, size)
            self.outputs |= {name.replace("past", "new"): torch.empty(new) for name in self.past}
        return self.outputs

    def _grow(self, slots: int) -> None:
        self.past = {name: pad(each, (0, 0, 0, slots)) for name, each in self.past.items()}
        self.ancestors = pad(self.ancestors, (0, slots), value=LOW)
        self.times = pad(self.times, (0, slots))


def _move_up(cache: Tensor, stay: Tensor) -> Tensor:
    """Keep only the sentences `stay`, in place: sentences whose index is unchanged are not copied."""
    moved = (stay != torch.arange(len(stay))).nonzero().squeeze(1)
    cache[moved] = cache[stay[moved]]
    return cache[: len(stay)]
