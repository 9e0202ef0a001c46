"""Replace the linear maps of a graph by int8 products, with one scale per row and one per column.

The tool of onnxruntime has one scale for all rows. One scale per row is more precise, and a translation does not
depend on the other sentences of its batch.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

# Without VNNI, the products of two adjacent weights with states of up to 255 are added in 16 bits. Two weights of the
# same sign add up to at most 127, or 128 after rounding, and 255 · 128 fits.
_WEIGHT_LIMIT, _PAIR_LIMIT = 127, 127
_STATE_LIMIT, _ZERO = 127.0, 128
SCALE = ".scale"  # added to the name of an output, for the output with its scales
_SMALLEST = 1e-9  # the scale of a row of zeros


def quantise(path: Path) -> None:
    """Rewrite a graph: every product of a state and a constant matrix becomes an int8 product.

    A product that is an output of the graph stays unscaled; the scales of its rows are a further output.
    """
    model = onnx.load(path)
    graph = model.graph
    constants = {each.name: each for each in graph.initializer}
    _add_constants(model)
    ends = {output.name for output in graph.output}
    nodes: list[NodeProto] = []
    done: set[str] = set()
    for node in graph.node:
        weight = constants.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None:
            nodes.append(node)
            continue
        state = node.input[0]
        if state not in done:  # a state may enter several maps, and a map may have several states
            nodes += _quantised_state(state)
        if weight.name not in done:
            matrix, scales = _quantised_weight(numpy_helper.to_array(weight))
            graph.initializer.append(numpy_helper.from_array(matrix, f"{weight.name}.q"))
            graph.initializer.append(numpy_helper.from_array(scales, f"{weight.name}.scales"))
        done |= {state, weight.name}
        of_product = [f"{state}.q", f"{weight.name}.q", "q.one", f"{weight.name}.scales", "q.zero"]
        result = node.output[0]
        product = result if result in ends else f"{result}.unscaled"
        nodes.append(helper.make_node("MatMulIntegerToFloat", of_product, [product], domain="com.microsoft"))
        if result in ends:
            nodes.append(helper.make_node("Identity", [f"{state}.scale"], [f"{result}{SCALE}"]))
            graph.output.append(helper.make_tensor_value_info(f"{result}{SCALE}", TensorProto.FLOAT, None))
        else:
            nodes.append(helper.make_node("Mul", [product, f"{state}.scale"], [result]))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [each for each in graph.initializer if each.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for file in path.parent.iterdir():  # the graph, and the files of weights that did not fit into it
        file.unlink()
    onnx.save(model, path)


def _add_constants(model: ModelProto) -> None:
    values = {"one": np.float32(1), "zero": np.uint8(_ZERO), "smallest": np.float32(_SMALLEST)}
    values["limit"] = np.float32(1 / _STATE_LIMIT)
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v), f"q.{name}") for name, v in values.items())


def _quantised_state(name: str) -> list[NodeProto]:
    """x → x.q in uint8 with zero point 128, and x.scale per row."""
    size, largest = f"{name}.size", f"{name}.largest"
    return [
        helper.make_node("Abs", [name], [size]),
        helper.make_node("ReduceMax", [size], [largest], axes=[-1], keepdims=1),
        helper.make_node("Max", [largest, "q.smallest"], [f"{largest}.safe"]),
        helper.make_node("Mul", [f"{largest}.safe", "q.limit"], [f"{name}.scale"]),
        helper.make_node("Div", [name, f"{name}.scale"], [f"{name}.unit"]),
        helper.make_node("QuantizeLinear", [f"{name}.unit", "q.one", "q.zero"], [f"{name}.q"]),
    ]


def _quantised_weight(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The weight in int8 [in, out], and one scale per column [out].  # weight [in, out]"""
    pairs = np.zeros((len(weight) + len(weight) % 2, weight.shape[1]), np.float32)
    pairs[: len(weight)] = weight
    first, second = pairs[::2], pairs[1::2]
    up = np.maximum(first, 0) + np.maximum(second, 0)
    down = np.minimum(first, 0) + np.minimum(second, 0)
    together = np.maximum(up, -down).max(0) / _PAIR_LIMIT
    scales = np.maximum(np.maximum(np.abs(weight).max(0) / _WEIGHT_LIMIT, together), _SMALLEST).astype(np.float32)
    return np.rint(weight / scales).astype(np.int8), scales
