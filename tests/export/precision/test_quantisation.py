"""The 8-bit graph: how near it stays to float32, what onnxruntime makes of it, odd networks."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.checks.runner import FoldedGraph
from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import PolicyHead
from octofold_export.handmade.layers import FoldedNetwork, float_form
from octofold_export.handmade.weights import FoldableNetwork
from octofold_export.precision.calibration import CLIP_QUANTILES, calibrate, enough, quantise, widen
from octofold_export.precision.lookups import first_layer


@pytest.fixture(scope="module")
def form(network: FoldableNetwork, boards: NDArray[np.uint8]) -> FoldedNetwork:
    return calibrate(network, boards[:512], 1.0)


def test_moves_stay_as_they_are_in_float32(
    network: FoldableNetwork, form: FoldedNetwork, boards: NDArray[np.uint8]
) -> None:
    others = boards[512:]
    exact = FoldedGraph(fold(PolicyHead(float_form(network)), "vote", 8)).answer(others)
    rounded = FoldedGraph(fold(PolicyHead(form), "vote", 8)).answer(others)
    assert np.mean(exact.move == rounded.move) > 0.99
    assert np.abs(exact.probabilities - rounded.probabilities).mean() < 0.002
    assert (exact.legal == rounded.legal).all()


def test_onnxruntime_runs_the_network_in_integers_from_the_board_to_the_logits(
    network: FoldableNetwork, form: FoldedNetwork, tmp_path: Path
) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3  # it warns that the optimised file suits this machine only
    onnxruntime.InferenceSession(
        fold(PolicyHead(form), "vote", 8).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    operators = Counter(node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node)
    _, hidden = first_layer(network)
    products = sum(len(layer.shape.regions) for layer in (*hidden, network.output))
    assert operators["QGemm"] == products
    unwanted = {"QuantizeLinear", "DequantizeLinear", "Gemm", "FusedGemm", "Relu", "Slice"}
    assert not unwanted & operators.keys()
    assert operators["MatMul"] == 1  # of the cells' exponents, to the rows of the first layer's table


def test_channels_that_are_always_zero_change_no_answer(
    network: FoldableNetwork, boards: NDArray[np.uint8]
) -> None:
    wide = widen(network, 20)
    assert {layer.shape.outputs % 20 for layer in wide.hidden} == {0}
    assert wide.output.shape.outputs == 4
    before = FoldedGraph(fold(PolicyHead(float_form(network)), "mean", 1)).answer(boards[:128])
    after = FoldedGraph(fold(PolicyHead(float_form(wide)), "mean", 1)).answer(boards[:128])
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-6)


def test_the_table_of_the_first_layer_answers_as_the_layer_does(
    network: FoldableNetwork, boards: NDArray[np.uint8]
) -> None:
    first, hidden = first_layer(network)
    exact = first.activations(boards[:64])
    graph = GraphBuilder()
    cells = graph.add("Cast", ["boards"], "cells", to=onnx.TensorProto.INT32)
    scale = np.float32(exact.max() / 255)
    encoded, places = first.rounded(np.ones(exact.shape[2], np.float32), scale).encode(
        graph, cells, np.arange(16)[None]
    )
    model = graph.model(
        [onnx.helper.make_tensor_value_info("boards", onnx.TensorProto.UINT8, ["N", 16])],
        [onnx.helper.make_tensor_value_info(encoded, onnx.TensorProto.UINT8, ["N", None, None])],
        "first",
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (steps,) = session.run(None, {"boards": boards[:64]})
    assert hidden[0].shape.inputs == steps.shape[2]
    np.testing.assert_allclose(steps[:, places[0]] * scale, exact, atol=0.51 * float(scale))


def test_an_8_bit_graph_gives_the_same_answer_in_every_batch(
    form: FoldedNetwork, boards: NDArray[np.uint8]
) -> None:
    graph = FoldedGraph(fold(PolicyHead(form), "vote", 8))
    alone, together = graph.answer(boards[:64], batch=1), graph.answer(boards[:64], batch=64)
    assert (alone.votes == together.votes).all()
    assert (alone.move == together.move).all()


def test_of_the_clip_quantiles_the_one_with_the_smallest_error_is_kept(
    network: FoldableNetwork, boards: NDArray[np.uint8]
) -> None:
    errors = iter([0.3, 0.1])
    best = quantise(network, boards[:256], lambda _: next(errors))
    expected = calibrate(network, boards[:256], CLIP_QUANTILES[1])
    assert fold(PolicyHead(best), "vote", 1) == fold(PolicyHead(expected), "vote", 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fate", ["a dead channel", "a dead layer", "a channel of bias alone", "huge biases"])
def test_odd_networks_give_finite_answers_close_to_float32(
    network: FoldableNetwork, boards: NDArray[np.uint8], fate: str
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
    exact = FoldedGraph(fold(PolicyHead(float_form(odd)), "mean", 8)).answer(boards[:128])
    rounded = FoldedGraph(fold(PolicyHead(calibrate(odd, boards[:128], 1.0)), "mean", 8)).answer(boards[:128])
    np.testing.assert_allclose(rounded.probabilities, exact.probabilities, atol=0.05)


def test_a_network_of_convolutions_is_calibrated_on_half_of_the_boards(
    network: FoldableNetwork, boards: NDArray[np.uint8]
) -> None:
    one_cell = any(sum(region.cells for region in layer.shape.regions) == 1 for layer in network.hidden)
    assert len(enough(network, boards[:256])) == (256 if one_cell else 128)
