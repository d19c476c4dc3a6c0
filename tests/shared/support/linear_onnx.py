"""A linear player, from one-hot cells to logits, as an ONNX file in many dialects, and its publication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_export.cli import main
from onnx import TensorProto, helper, numpy_helper

from support.lessons import Lessons

FAST = ["--precisions", "fp32", "--symmetries", "2", "--answer", "policy_logits"]
READS = ["--input", "one_hot", "--layout", "flat", "--planes", "16"]
Weights = NDArray[np.float32]


@cache
def linear_weights(lessons: Lessons) -> Weights:
    """Return weights `[256, 4]`, cell after cell, fitted to the moves' leads by least squares."""
    features = np.eye(16)[lessons.boards].reshape(len(lessons.boards), -1)
    gram = features.T @ features + 10 * np.eye(256)
    targets = np.maximum(lessons.leads, -1)
    weights = np.linalg.solve(gram, features.T @ targets).astype(np.float32)
    weights.flags.writeable = False  # all tests share these weights
    return weights


def linear_model(
    weights: Weights, *, opset: int = 18, batch: int | None = None, extra_input: bool = False
) -> onnx.ModelProto:
    """Return a model from `[batch, 4, 4, 16]` to `[batch, 4]`, with one matrix product."""
    size = batch or "N"
    shape = numpy_helper.from_array(np.array([batch or -1, 256]), "shape")
    nodes = [
        helper.make_node("Reshape", ["cells", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["policy"]),
    ]
    inputs = [helper.make_tensor_value_info("cells", TensorProto.FLOAT, [size, 4, 4, 16])]
    if extra_input:
        inputs.append(helper.make_tensor_value_info("temperature", TensorProto.FLOAT, [1]))
    graph = helper.make_graph(
        nodes,
        "linear",
        inputs,
        [helper.make_tensor_value_info("policy", TensorProto.FLOAT, [size, 4])],
        [shape, numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def publish(file: Path, boards: Path, *more: str) -> int:
    place = ["--onnx", str(file), "--name", "linear", "--models", str(file.parent / "models")]
    order = [] if "--actions" in more else ["--actions", "up,right,down,left"]
    return main([*place, "--boards", str(boards), *FAST, *order, *more])


def save(
    file: Path,
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    shape: Sequence[int | str] | None = ("N", 256),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    opset: tuple[str, int] = ("", 18),
    ir_version: int = 8,
) -> None:
    cells = helper.make_tensor_value_info("cells", TensorProto.FLOAT, shape)
    policy = helper.make_tensor_value_info("policy", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "odd", [cells, *inputs], [policy], constants)
    imports = [helper.make_opsetid(*opset)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=ir_version), file)


def product(output: str = "policy") -> onnx.NodeProto:
    return helper.make_node("MatMul", ["cells", "weights"], [output])


def linear(**dialect: Any) -> Callable[[Path, Weights], None]:
    return lambda file, weights: onnx.save(linear_model(weights, **dialect), file)
