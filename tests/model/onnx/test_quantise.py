"""Eight-bit products against the same arithmetic done in integers, slowly."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from knnmt.model.onnx.quantise import quantise

OUT = 48


def graph(path: Path, weight: np.ndarray) -> Path:
    """Two maps of one state, the second with the weight's columns the other way round and at the graph's end."""
    inside, outside = weight.shape
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "a"], ["inside"]),
                helper.make_node("Identity", ["inside"], ["y"]),
                helper.make_node("MatMul", ["x", "b"], ["z"]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", inside])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", outside]) for name in "yz"],
            [numpy_helper.from_array(weight, "a"), numpy_helper.from_array(weight[:, ::-1].copy(), "b")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    onnx.save(model, path)
    return path


def run(path: Path, states: np.ndarray) -> list[np.ndarray]:
    y, z, scale = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": states})
    return [y, z * scale]


def slowly(states: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Row by row and column by column, in integers that cannot overflow."""
    out = np.zeros((len(states), weight.shape[1]))
    for row, state in enumerate(states):
        largest = max(abs(state).max() / 127, 1e-11)
        whole = np.rint(np.float32(state) / np.float32(largest)).astype(np.int64)
        for column in range(weight.shape[1]):
            entries = weight[:, column].astype(np.float64)
            limits = [1e-9, *(abs(entries) / 127)]
            for first in range(0, len(entries), 2):
                pair = entries[first : first + 2]
                limits += [pair[pair > 0].sum() / 127, -pair[pair < 0].sum() / 127]
            scale = np.float32(max(limits))
            out[row, column] = int(np.rint(np.float32(entries) / scale).astype(np.int64) @ whole) * scale * largest
    return out


@pytest.mark.parametrize("inside", [64, 65, 7])
@pytest.mark.parametrize("kind", ["usual", "all alike", "one large", "zeros"])
def test_it_is_the_arithmetic_it_says(inside: int, kind: str, tmp_path: Path) -> None:
    """With large states and weights of one sign, where sums of two products would not fit in 16 bits."""
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(inside, OUT)).astype(np.float32)
    states = rng.normal(size=(9, inside)).astype(np.float32)
    if kind == "all alike":
        weight, states = np.abs(weight) * 0 + 3, np.abs(states) * 0 + 5
        weight[:, 1], states[1] = -3, -5
    elif kind == "one large":
        weight[3], states[:, 3] = 40, 70
    elif kind == "zeros":
        weight[:, 2], states[2] = 0, 0
    path = graph(tmp_path / "graph.onnx", weight)
    quantise(path)
    first, second = run(path, states)
    expected = slowly(states, weight)
    # a product may lie on the edge between two numbers
    np.testing.assert_allclose(first, expected, rtol=1e-3, atol=2e-2 * abs(expected).max() / 127)
    np.testing.assert_array_equal(first, second[:, ::-1])  # exact: whole numbers, each multiplied twice
    exact = states @ weight
    assert abs(first - exact).mean() <= 0.02 * abs(exact).mean()


def test_a_row_does_not_depend_on_the_others(tmp_path: Path) -> None:
    """To the bit: sums are of whole numbers, in any order."""
    rng = np.random.default_rng(6)
    path = graph(tmp_path / "graph.onnx", rng.normal(size=(32, OUT)).astype(np.float32))
    quantise(path)
    states = rng.normal(size=(5, 32)).astype(np.float32)
    states[4] *= 1000
    together = run(path, states)[0]
    for row in range(5):
        np.testing.assert_array_equal(run(path, states[row : row + 1])[0][0], together[row])


def test_the_weights_are_kept_in_eight_bits(tmp_path: Path) -> None:
    path = graph(tmp_path / "graph.onnx", np.random.default_rng(7).normal(size=(512, OUT)).astype(np.float32))
    before = path.stat().st_size
    quantise(path)
    assert path.stat().st_size < 0.3 * before
