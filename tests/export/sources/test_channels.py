"""Padded channels: the answers of a body stay the same, and its convolutions get a width that is fast."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_export.sources.body import new_session
from octofold_export.sources.channels import widen_channels
from onnx import helper, numpy_helper

_SIZE: list[str | int | None] = ["N", 18, 4, 4]


def _body(*nodes: onnx.NodeProto, **constants: NDArray[np.generic]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info("planes", onnx.TensorProto.FLOAT, _SIZE)],
        [helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, ["N", None, None, None])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _convolution(source: str, weights: str, output: str) -> onnx.NodeProto:
    return helper.make_node("Conv", [source, weights, "bias"], [output], pads=[0, 0, 1, 1])


def _weights(outputs: int, inputs: int) -> NDArray[np.float32]:
    return np.random.default_rng(outputs).normal(size=(outputs, inputs, 2, 2)).astype(np.float32)


def _between(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """Two convolutions, of 30 and 20 channels, and `nodes` from `wide` to `made` between them."""
    return _body(
        _convolution("planes", "first", "wide"),
        *nodes,
        helper.make_node("Conv", ["made", "last"], ["answer"]),
        first=_weights(30, 18),
        last=_weights(20, 30),
        bias=np.arange(1, 31, dtype=np.float32),
        around=np.array([0, 0, 1, 1, 0, 0, 0, 0]),
        more_channels=np.array([0, 1, 0, 0, 0, -1, 0, 0]),
        by_channel=np.ones((30, 1, 1), np.float32),
        one=np.array(1, np.float32),
    )


def _widths(body: onnx.ModelProto) -> list[tuple[int, int]]:
    shapes = {tensor.name: tensor.dims for tensor in body.graph.initializer}
    weights = [shapes[node.input[1]] for node in body.graph.node if node.op_type == "Conv"]
    return [(dims[0], dims[1]) for dims in weights]


def _check_answers(body: onnx.ModelProto) -> onnx.ModelProto:
    result = widen_channels(body)
    onnx.checker.check_model(result, full_check=True)
    planes = np.random.default_rng(1).normal(size=(3, 18, 4, 4)).astype(np.float32)
    before, after = (new_session(model).run(None, {"planes": planes})[0] for model in (body, result))
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-3)
    return result


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Relu", ["wide"], ["made"])],
        [helper.make_node("Pad", ["wide", "around"], ["made"])],
        [helper.make_node("Pad", ["wide", "around", "one"], ["made"])],
        [helper.make_node("Pad", ["wide", "around"], ["made"], mode="edge")],
        [helper.make_node("MaxPool", ["wide"], ["made"], kernel_shape=[2, 2])],
        [helper.make_node("Exp", ["wide"], ["bent"]), helper.make_node("Add", ["wide", "bent"], ["made"])],
        [
            helper.make_node("Sigmoid", ["wide"], ["gate"]),
            helper.make_node("Mul", ["wide", "gate"], ["made"]),
        ],
        [helper.make_node("Sub", ["one", "wide"], ["made"])],
    ],
    ids=lambda nodes: "+".join(node.op_type for node in nodes),
)
def test_channels_stay_padded_from_one_convolution_to_the_next(nodes: list[onnx.NodeProto]) -> None:
    result = _check_answers(_between(*nodes))
    assert _widths(result) == [(32, 18), (24, 32)]
    assert [node.op_type for node in result.graph.node].count("Slice") == 1  # of the answer


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Log", ["wide"], ["logs"]), helper.make_node("Neg", ["logs"], ["made"])],
        [helper.make_node("Softmax", ["wide"], ["made"], axis=1)],
        [helper.make_node("Add", ["wide", "by_channel"], ["made"])],
        [helper.make_node("Pad", ["wide", "more_channels"], ["made"])],
        [helper.make_node("Relu", ["wide"], ["made"], domain="ai.onnx.ml")],
    ],
    ids=lambda nodes: "+".join(node.op_type for node in nodes),
)
def test_any_other_operator_gets_the_channels_of_the_network(nodes: list[onnx.NodeProto]) -> None:
    rewritten = widen_channels(_between(*nodes))
    read = {name for node in rewritten.graph.node if node.op_type == nodes[0].op_type for name in node.input}
    assert "wide" in read
    if nodes[0].op_type in ("Softmax", "Add"):
        _check_answers(_between(*nodes))


def test_a_wide_tensor_and_its_own_channels_may_both_be_needed() -> None:
    body = _between(
        helper.make_node("Relu", ["wide"], ["made"]),
        helper.make_node("Flatten", ["wide"], ["flat"]),
        helper.make_node("ReduceSum", ["wide"], ["sum"]),
    )
    assert _widths(_check_answers(body)) == [(32, 18), (24, 32)]


def test_two_convolutions_may_share_their_weights() -> None:
    body = _body(
        _convolution("planes", "weights", "first"),
        _convolution("first", "weights", "second"),
        helper.make_node("Conv", ["second", "weights"], ["answer"]),
        weights=_weights(18, 18),
        bias=np.ones(18, np.float32),
    )
    assert _widths(_check_answers(body)) == [(24, 18), (24, 24), (24, 24)]


def test_grouped_and_narrow_convolutions_keep_their_channels() -> None:
    body = _body(
        helper.make_node("Conv", ["planes", "grouped"], ["kept"], group=2),
        helper.make_node("Conv", ["kept", "narrow"], ["answer"]),
        grouped=_weights(30, 9),
        narrow=_weights(3, 30),
    )
    assert _check_answers(body) == body
