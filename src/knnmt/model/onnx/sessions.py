"""Exported graphs as sessions of ONNX Runtime, without the model."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from knnmt.model.onnx.export import ENCODER, PROJECTION, STEP, TARGETS

_KINDS = {torch.int64: np.int64, torch.float32: np.float32}


class Graph:
    """A session that reads and writes torch tensors in place: nothing is copied."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.inputs = [each.name for each in session.get_inputs()]  # the exporter drops inputs that are not used
        self.outputs = [each.name for each in session.get_outputs()]

    def run(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> None:
        binding = self.session.io_binding()
        for name in self.inputs:
            _bind(binding.bind_input, name, inputs[name])
        for name, tensor in outputs.items():
            _bind(binding.bind_output, name, tensor)
        self.session.run_with_iobinding(binding)


class Sessions:
    """The graphs that `export` wrote to a directory.

    Each is opened on first use: a build needs no steps, and a translation needs no whole targets.
    """

    def __init__(self, directory: Path, precision: str) -> None:
        self.directory, self.precision = directory, precision

    @cached_property
    def encoder(self) -> Any:
        """Not a `Graph`: the size of its outputs is not known in advance."""
        return self._open(ENCODER)

    @cached_property
    def step(self) -> Graph:
        return Graph(self._open(STEP))

    @cached_property
    def targets(self) -> Graph:
        return Graph(self._open(TARGETS))

    @cached_property
    def projection(self) -> Graph:
        return Graph(self._open(PROJECTION))

    def _open(self, name: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # waiting threads must not occupy the cores that the search needs
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(str(self.directory / name), options, providers=["CPUExecutionProvider"])


def _bind(bind: Any, name: str, tensor: Tensor) -> None:
    bind(name, "cpu", 0, _KINDS[tensor.dtype], list(tensor.shape), tensor.data_ptr())
