"""The 8-bit graph stays near float32, onnxruntime can optimize it, and unusual networks work."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.layers import LayersEvaluator, float32_network
from octofold_export.handmade.weights import NetworkWeights
from octofold_export.precision.int8_layers import first_layer
from octofold_export.precision.int8_quantization import calibrate
from octofold_export.sources.octofold_checkpoint import one_hot_description

POLICY = one_hot_description(16)


@pytest.fixture(scope="module")
def form(network: NetworkWeights, boards: NDArray[np.uint8]) -> LayersEvaluator:
    return calibrate(network, boards[:512], 1.0)


def test_moves_equal_those_of_float32(
    network: NetworkWeights, form: LayersEvaluator, boards: NDArray[np.uint8]
) -> None:
    others = boards[512:]
    exact = FoldedGraph(fold(head(POLICY, float32_network(network)), "vote", 8)).answer(others)
    rounded = FoldedGraph(fold(head(POLICY, form), "vote", 8)).answer(others)
    assert np.mean(exact.move == rounded.move) > 0.99
    assert np.abs(exact.probabilities - rounded.probabilities).mean() < 0.002
    assert (exact.legal == rounded.legal).all()


def test_onnxruntime_runs_the_network_in_integers_from_the_board_to_the_logits(
    network: NetworkWeights, form: LayersEvaluator, tmp_path: Path
) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3  # errors only: a warning says that the file fits only this machine
    onnxruntime.InferenceSession(
        fold(head(POLICY, form), "vote", 8).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    operators = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
    _, hidden = first_layer(network)
    products = sum(len(layer.shape.regions) for layer in (*hidden, network.output))
    assert operators["QGemm"] == products
    unwanted = {"QuantizeLinear", "DequantizeLinear", "Gemm", "FusedGemm", "Relu", "Slice"}
    assert not unwanted & operators.keys()
    assert operators["MatMul"] == 1  # it computes the rows of the first layer's table from exponents


def test_an_8_bit_graph_gives_the_same_answer_in_every_batch(
    form: LayersEvaluator, boards: NDArray[np.uint8]
) -> None:
    graph = FoldedGraph(fold(head(POLICY, form), "vote", 8))
    alone, together = graph.answer(boards[:64], batch=1), graph.answer(boards[:64], batch=64)
    assert (alone.votes == together.votes).all()
    assert (alone.move == together.move).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fate", ["a dead channel", "a dead layer", "a channel of bias alone", "huge biases"])
def test_unusual_networks_give_finite_answers_close_to_float32(
    network: NetworkWeights, boards: NDArray[np.uint8], fate: str
) -> None:
    hidden = list(network.hidden)
    middle = len(hidden) // 2
    layer = hidden[middle]
    weights, bias = layer.weights.copy(), layer.bias.copy()
    if fate == "a dead channel":
        weights[:, :, 3], bias[3] = 0, 0
    elif fate == "a dead layer":
        weights[:], bias[:] = 0, -1
    elif fate == "a channel of bias alone":
        weights[:, :, 3], bias[3] = 0, 1
    else:
        weights *= 1e-6
        bias[:] = 100
    hidden[middle] = replace(layer, weights=weights, bias=bias)
    odd = replace(network, hidden=tuple(hidden))
    exact = FoldedGraph(fold(head(POLICY, float32_network(odd)), "mean", 8)).answer(boards[:128])
    rounded = FoldedGraph(fold(head(POLICY, calibrate(odd, boards[:128], 1.0)), "mean", 8)).answer(
        boards[:128]
    )
    np.testing.assert_allclose(rounded.probabilities, exact.probabilities, atol=0.05)
