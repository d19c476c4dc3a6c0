"""The graph for only moves makes the moves of the full graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_export.description.description import encode
from octofold_export.graph.early_exit import moves_graph, with_weights
from octofold_export.graph.encoded_body import EncodedBody
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.weights import NetworkWeights
from octofold_export.precision.int8_quantization import calibrate
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.rules import legal_moves
from octofold_server.backends.backend import Layout, RequestedOutputs
from octofold_server.backends.onnx_backend import onnx_lanes
from onnx.reference import ReferenceEvaluator
from torch import nn

POLICY = one_hot_description(16)
OVER = np.array([1, 2, 1, 2, 2, 1, 2, 1] * 2, np.uint8)
FORCED = np.array([1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 0, 0, 0, 0], np.uint8)  # down


def some_boards(count: int) -> NDArray[np.uint8]:
    """Return random boards. Many have few legal moves, and some have one or none."""
    random = np.random.default_rng(4)
    found = random.integers(1, 12, (count, 16), dtype=np.uint8)
    found[: count // 2] *= random.random((count // 2, 16)) < 0.7
    found[:: max(1, count // 8)] = OVER
    found[1 :: max(2, count // 8)] = FORCED
    return found


@pytest.fixture(scope="module", params=["one layer", "8 bits", "a body"])
def graphs(
    request: pytest.FixtureRequest,
    network: NetworkWeights,
    module: nn.Module,
    boards: NDArray[np.uint8],
    small_graphs: tuple[bytes, bytes],
) -> tuple[bytes, bytes]:
    """The full graph, and the graph for only moves."""
    if request.param == "one layer":
        return small_graphs
    policy = head(POLICY, calibrate(network, boards[:256], 1.0))
    if request.param == "a body":
        example = encode(POLICY.reads, boards[:3])
        policy = head(POLICY, EncodedBody(TorchNetwork(module, "it").body(["output"], example), POLICY))
    whole = fold(policy, "vote", 8)
    alone = moves_graph(policy, "vote", 8, whole)
    assert alone is not None
    return whole.SerializeToString(), alone.SerializeToString()


def test_the_graph_for_moves_alone_makes_the_moves_of_the_full_graph_including_ties(
    graphs: tuple[bytes, bytes],
) -> None:
    whole, alone = graphs
    assert len(alone) < 50_000
    assert [each.name for each in onnx.load_model_from_string(alone).graph.output] == ["move"]
    (lane,) = onnx_lanes(whole, Layout("cpu", 64, lanes=1), moves=alone)
    assert lane.in_stages
    asked = some_boards(1_000)
    assert {0, 1, 2, 3, 4} <= set(legal_moves(asked).sum(axis=1).tolist())
    start, sizes = 0, [1, 3, 4, 5, 17, 64]
    while start < len(asked):
        part = asked[start : start + sizes[start % len(sizes)]]
        answer, move = lane.run(part), lane.run(part, RequestedOutputs())
        np.testing.assert_array_equal(move.moves, answer.moves)
        assert move.votes is None
        assert answer.votes is not None
        start += len(part)


def test_five_equal_votes_skip_three_views(small_graphs: tuple[bytes, bytes]) -> None:
    whole, alone = map(onnx.load_model_from_string, small_graphs)
    model = with_weights(alone, whole)
    (chosen,) = (node for node in model.graph.node if node.op_type == "NonZero")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(chosen.output[0]))
    whole.graph.output.append(onnx.helper.make_empty_tensor_value_info("favourite"))
    asked = some_boards(64)
    moves, favorites = ReferenceEvaluator(whole).run(["move", "favourite"], {"boards": asked})
    found, undecided = ReferenceEvaluator(model).run(["move", chosen.output[0]], {"boards": asked})
    np.testing.assert_array_equal(found, moves)
    first = np.asarray(favorites)[:, :5, 0]
    np.testing.assert_array_equal(
        np.asarray(undecided)[0], np.flatnonzero(first.min(axis=1) < first.max(axis=1))
    )
