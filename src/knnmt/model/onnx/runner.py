"""A model run by ONNX Runtime."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from knnmt.model.onnx.decoder import LOW
from knnmt.model.onnx.export import ENCODER, PASS, PROJECTION, STEP
from knnmt.model.onnx.quantise import SCALE
from knnmt.model.runner import Step
from knnmt.model.translation_model import TranslationModel

_ENCODED = 8  # sentences that are encoded together: more would be padded to the longest of them all
_SLOTS = 32  # the caches grow by so many at a time
_KINDS = {torch.int64: np.int64, torch.float32: np.float32}


class OnnxRunner:
    """Runs the graphs that `export` wrote; what a translation needs is in its decoder."""

    def __init__(self, model: TranslationModel, directory: Path, precision: str) -> None:
        self.name, self.precision = "onnx", precision
        self.model, self.directory = model, directory
        self.crosses = [output.name for output in self.encoder.get_outputs()]
        self.source_vectors = model.hf.get_encoder().embed_tokens.weight.detach()
        self.target_vectors = model.hf.get_decoder().embed_tokens.weight.detach()

    # Each is opened when it is needed: a build takes no step, and a translation makes no pass.
    @cached_property
    def encoder(self) -> Any:
        return self._session(ENCODER)

    @cached_property
    def step(self) -> "Graph":
        return Graph(self._session(STEP))

    @cached_property
    def whole(self) -> "Graph":
        return Graph(self._session(PASS))

    @cached_property
    def projection(self) -> "Projection":
        return Projection(Graph(self._session(PROJECTION)), self.model.bias)

    def _session(self, name: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # a thread that waits must not take the core from the search
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(str(self.directory / name), options, providers=["CPUExecutionProvider"])

    def start(self, sources: Sequence[list[int]]) -> "OnnxDecoder":
        return OnnxDecoder(self, *self.model.pad_sources(sources))

    def encode(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The sources' mask and what the decoder's layers need of them."""
        low = ((1 - mask.float()) * LOW)[:, None, None, :].contiguous()
        parts = zip(torch.split(ids, _ENCODED), torch.split(low, _ENCODED), strict=True)
        few = [self._encode_few(*part) for part in parts]
        return low, {name: torch.cat([part[name] for part in few]) for name in self.crosses}

    def _encode_few(self, ids: Tensor, low: Tensor) -> dict[str, Tensor]:
        """Sentences of like length, without the padding that they share; it is there again in what they give."""
        length = ids.shape[1]
        longest = int((low == 0).sum(3).max())
        vectors = torch.nn.functional.embedding(ids[:, :longest], self.source_vectors)
        inputs = {"vectors": vectors.numpy(), "mask": low[..., :longest].contiguous().numpy()}
        found = zip(self.crosses, self.encoder.run(self.crosses, inputs), strict=True)
        room = length - longest
        return {
            name: torch.nn.functional.pad(torch.from_numpy(each), (0, room) if "key" in name else (0, 0, 0, room))
            for name, each in found
        }

    def force(self, ids: Tensor, mask: Tensor, decoder_input: Tensor) -> tuple[Tensor, Tensor]:
        low, cross = self.encode(ids, mask)
        shape = (*decoder_input.shape, self.model.dim)
        states = {"keys": torch.empty(shape), "hidden": torch.empty(shape)}
        vectors = torch.nn.functional.embedding(decoder_input, self.target_vectors)
        self.whole.run({"vectors": vectors, "mask": low, **cross}, states)
        return states["keys"], states["hidden"]

    def logits(self, hidden: Tensor) -> Tensor:
        logits = torch.empty(len(hidden), self.model.vocab_size)
        self.projection.run(hidden[None].contiguous(), logits[None])
        return logits


class Graph:
    """A session whose inputs and outputs are tensors of ours, bound in place: nothing is copied."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.inputs = [each.name for each in session.get_inputs()]  # what a family does not need was left out

    def run(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
        binding = self.session.io_binding()
        for name in self.inputs:
            _bind(binding.bind_input, name, inputs[name])
        for name, tensor in outputs.items():
            _bind(binding.bind_output, name, tensor)
        self.session.run_with_iobinding(binding)


class Projection:
    """States to logits; scales, where there are any, and the bias in one pass over the vocabulary."""

    def __init__(self, graph: Graph, bias: Tensor | None) -> None:
        self.graph, self.bias = graph, bias
        self.scaled = len(graph.session.get_outputs()) > 1

    def run(self, hidden: Tensor, logits: Tensor) -> None:
        """hidden [sentences, width, d] → logits [sentences, width, vocabulary], in place"""
        scale = torch.empty(*hidden.shape[:2], 1)
        outputs = {"logits": logits} | ({f"logits{SCALE}": scale} if self.scaled else {})
        self.graph.run({"hidden": hidden}, outputs)
        if self.scaled and self.bias is not None:
            torch.addcmul(self.bias, logits, scale, out=logits)
        elif self.scaled:
            logits.mul_(scale)
        elif self.bias is not None:
            logits.add_(self.bias)


class OnnxDecoder:
    """Nothing is copied from step to step but what a step adds to the caches."""

    def __init__(self, runner: OnnxRunner, ids: Tensor, mask: Tensor) -> None:
        self.runner = runner
        self.mask, self.cross = runner.encode(ids, mask)
        self.width = 1
        self.position = self.used = 0
        _, heads, size, _ = self.cross["cross_key_0"].shape
        past = (len(ids), heads, _SLOTS, size)
        self.past = {name.replace("cross", "past"): torch.zeros(past) for name in self.cross}
        self.ancestors = torch.full((len(ids), 1, 1, _SLOTS), LOW)
        self.times = torch.zeros(_SLOTS, dtype=torch.int64)
        self.outputs: dict[str, Tensor] = {}
        self.scores = torch.empty(0)

    def step(self, tokens: Tensor) -> Step:
        for column in tokens.unbind(1):
            self._step(column)
        self.runner.projection.run(self.outputs["hidden"], self.scores)
        return Step(self.outputs["keys"].flatten(0, 1), self.scores.flatten(0, 1))

    def select(self, rows: Tensor) -> None:
        sentences = rows // self.width
        stay = torch.unique_consecutive(sentences)
        width = len(rows) // len(stay)
        self.ancestors = self.ancestors[sentences, 0, rows % self.width].view(len(stay), 1, width, -1)
        if not torch.equal(stay, torch.arange(len(self.mask))):
            self.mask = _kept(self.mask, stay)
            self.cross = {name: _kept(each, stay) for name, each in self.cross.items()}
            self.past = {name: _kept(each, stay) for name, each in self.past.items()}
        self.width = width

    def _step(self, tokens: Tensor) -> None:
        sentences, width = len(self.mask), self.width
        if self.used + width > len(self.times):
            self._grow(max(_SLOTS, width))
        inputs = {
            "vectors": torch.nn.functional.embedding(tokens.view(sentences, width), self.runner.target_vectors),
            "position": torch.tensor([self.position]),
            "times": self.times,
            "ancestors": self.ancestors,
            "mask": self.mask,
        }
        outputs = self._room(sentences, width)
        self.runner.step.run(inputs | self.past | self.cross, outputs)
        slots = slice(self.used, self.used + width)
        for name, past in self.past.items():
            past[:, :, slots] = outputs[name.replace("past", "new")]
        own = torch.arange(width)
        self.ancestors[:, 0, own, self.used + own] = 0.0
        self.times[slots] = self.position
        self.used += width
        self.position += 1

    def _room(self, sentences: int, width: int) -> dict[str, Tensor]:
        """Where the outputs go: the same memory as long as as many hypotheses are left."""
        if not self.outputs or self.outputs["hidden"].shape[:2] != (sentences, width):
            _, heads, _, size = self.past["past_key_0"].shape
            dim = self.runner.model.dim
            self.outputs = {"keys": torch.empty(sentences, width, dim), "hidden": torch.empty(sentences, width, dim)}
            new = (sentences, heads, width, size)
            self.outputs |= {name.replace("past", "new"): torch.empty(new) for name in self.past}
            self.scores = torch.empty(sentences, width, self.runner.model.vocab_size)
        return self.outputs

    def _grow(self, slots: int) -> None:
        self.past = {name: torch.nn.functional.pad(each, (0, 0, 0, slots)) for name, each in self.past.items()}
        self.ancestors = torch.nn.functional.pad(self.ancestors, (0, slots), value=LOW)
        self.times = torch.nn.functional.pad(self.times, (0, slots))


def _kept(cache: Tensor, stay: Tensor) -> Tensor:
    """The sentences that stay, in place: only those that change places are moved."""
    moved = (stay != torch.arange(len(stay))).nonzero().squeeze(1)
    cache[moved] = cache[stay[moved]]
    return cache[: len(stay)]


def _bind(bind: Any, name: str, tensor: Tensor) -> None:
    bind(name, "cpu", 0, _KINDS[tensor.dtype], list(tensor.shape), tensor.data_ptr())
