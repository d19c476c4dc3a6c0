"""Quantized forms of foreign networks are near float32, use integers, and take any batch size."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.errors import ExportError
from octofold_export.precision.body_conversion import (
    check_float16_range,
    float16_body,
    int8_bodies,
    with_named_nodes,
)
from octofold_export.sources.torch_network import TorchNetwork
from support.foreign_networks import PolicyAndValue
from support.lessons import Lessons, one_hot, train
from torch import nn


@pytest.fixture(scope="module")
def residual(lessons: Lessons) -> nn.Module:
    torch.manual_seed(2)
    planes = one_hot(lessons.boards).permute(0, 2, 1).reshape(-1, 16, 4, 4)
    moves = torch.from_numpy(lessons.leads).argmax(dim=1)
    return train(PolicyAndValue(16, 1), planes, moves, select="policy", steps=60)


@pytest.fixture(scope="module")
def inputs(lessons: Lessons) -> NDArray[np.float32]:
    planes: NDArray[np.float32] = one_hot(lessons.boards[:512]).permute(0, 2, 1).reshape(-1, 16, 4, 4).numpy()
    return planes


@pytest.fixture(scope="module")
def body(residual: nn.Module, inputs: NDArray[np.float32]) -> onnx.ModelProto:
    return with_named_nodes(TorchNetwork(residual, "residual").body(["policy"], inputs[:3]))


def run(body: onnx.ModelProto, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(body.SerializeToString(), options, ["CPUExecutionProvider"])
    (output,) = session.run(None, {session.get_inputs()[0].name: inputs})
    return np.asarray(output)


def test_every_8_bit_form_is_near_float32_and_multiplies_in_integers(
    body: onnx.ModelProto, inputs: NDArray[np.float32], tmp_path: Path
) -> None:
    exact = run(body, inputs)
    forms = list(int8_bodies(body, inputs[:250]))  # the last batch is smaller
    assert len(forms) == 3
    for form in forms:
        assert np.abs(run(form, inputs) - exact).mean() < 0.05 * np.abs(exact).mean()
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(form.SerializeToString(), options, ["CPUExecutionProvider"])
        operators = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
        assert operators["QLinearConv"] == 3
        assert operators["Conv"] == 0


def test_float16_is_near_float32_and_much_smaller(body: onnx.ModelProto, inputs: NDArray[np.float32]) -> None:
    half = float16_body(body)
    np.testing.assert_allclose(run(half, inputs), run(body, inputs), atol=0.02)
    assert half.ByteSize() < 0.75 * body.ByteSize()


def test_a_network_that_cannot_be_converted_to_float16_is_refused_in_one_line() -> None:
    body = TorchNetwork(nn.Linear(16, 4), "sparse").body(["output"], np.zeros((3, 16), np.float32))
    (weights,) = (tensor for tensor in body.graph.initializer if len(tensor.dims) == 2)
    dense = onnx.numpy_helper.to_array(weights).ravel()
    values = onnx.numpy_helper.from_array(dense, weights.name)
    places = onnx.numpy_helper.from_array(np.arange(dense.size), "places")
    body.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, weights.dims))
    body.graph.initializer.remove(weights)
    assert run(body, np.zeros((1, 16), np.float32)).shape == (1, 4)
    with pytest.raises(ExportError, match="onnxruntime cannot convert the network to float16"):
        float16_body(body)


def test_numbers_too_large_for_float16_are_found_on_a_cpu() -> None:
    body = TorchNetwork(nn.Linear(16, 4), "tiles").body(["output"], np.zeros((3, 16), np.float32))
    check_float16_range(body, np.full((1, 16), 8192, np.float32))
    with pytest.raises(ExportError, match=r"must be at most 65,504 for float16, got 131,072"):
        check_float16_range(body, np.full((1, 16), 131_072, np.float32))
