"""A linear player as an ONNX file in many dialects: channels-last one-hot cells in, logits out."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from support.lessons import Lessons


@cache
def linear_weights(lessons: Lessons) -> NDArray[np.float32]:
    """`[256, 4]`, cell after cell: the least squares fit to the moves' leads."""
    features = np.eye(16)[lessons.boards].reshape(len(lessons.boards), -1)
    gram = features.T @ features + 10 * np.eye(256)
    targets = np.maximum(lessons.leads, -1)
    weights = np.linalg.solve(gram, features.T @ targets).astype(np.float32)
    weights.flags.writeable = False  # all tests get the same
    return weights


def linear_model(
    weights: NDArray[np.float32],
    *,
    opset: int = 18,
    batch: int | None = None,
    operator: str = "MatMul",
    outputs: tuple[str, ...] = ("policy",),
    extra_input: bool = False,
) -> onnx.ModelProto:
    """`[batch, 4, 4, 16]` to `[batch, 4]`, by one product; every output holds the same."""
    size = batch or "N"
    shape = numpy_helper.from_array(np.array([batch or -1, 256]), "shape")
    nodes = [helper.make_node("Reshape", ["cells", "shape"], ["flat"])]
    nodes += [helper.make_node(operator, ["flat", "weights"], [name]) for name in outputs]
    inputs = [helper.make_tensor_value_info("cells", TensorProto.FLOAT, [size, 4, 4, 16])]
    if extra_input:
        inputs.append(helper.make_tensor_value_info("temperature", TensorProto.FLOAT, [1]))
    graph = helper.make_graph(
        nodes,
        "linear",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, 4]) for name in outputs],
        [shape, numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
