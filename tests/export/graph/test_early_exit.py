"""The graph for moves alone: its moves are those of the whole graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_export.checks.gates import checked_moves_graph
from octofold_export.graph.early_exit import moves_graph, with_weights
from octofold_game.rules import legal_moves
from octofold_server.backends.backend import Layout, RequestedOutputs
from octofold_server.backends.onnx_backend import onnx_lanes
from onnx.reference import ReferenceEvaluator
from support.shipped import newest

FLAGSHIP = newest("flagship") / "model.int8.onnx"  # it votes
OVER = np.array([1, 2, 1, 2, 2, 1, 2, 1] * 2, np.uint8)
FORCED = np.array([1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 0, 0, 0, 0], np.uint8)  # down


def boards(count: int) -> NDArray[np.uint8]:
    """Random boards of which many have few legal moves, and some have one or none."""
    random = np.random.default_rng(4)
    found = random.integers(1, 12, (count, 16), dtype=np.uint8)
    found[: count // 2] *= random.random((count // 2, 16)) < 0.7
    found[:: max(1, count // 8)] = OVER
    found[1 :: max(2, count // 8)] = FORCED
    return found


@pytest.mark.parametrize("model", ["small_model", "flagship"])
def test_moves_alone_are_those_of_the_whole_graph_ties_included(
    model: str, request: pytest.FixtureRequest
) -> None:
    content = FLAGSHIP.read_bytes() if model == "flagship" else request.getfixturevalue(model)
    whole = onnx.load_model_from_string(content)
    alone = moves_graph(whole)
    assert alone is not None
    assert len(alone.SerializeToString()) < 20_000
    assert [each.name for each in alone.graph.output] == ["move"]
    (lane,) = onnx_lanes(content, Layout("cpu", 64, lanes=1), moves=alone.SerializeToString())
    assert lane.in_stages
    asked = boards(1_000)
    assert {0, 1, 2, 3, 4} <= set(legal_moves(asked).sum(axis=1).tolist())
    start, sizes = 0, [1, 3, 4, 5, 17, 64]
    while start < len(asked):
        part = asked[start : start + sizes[start % len(sizes)]]
        answer, move = lane.run(part), lane.run(part, RequestedOutputs())
        np.testing.assert_array_equal(move.moves, answer.moves)
        assert move.votes is None
        assert answer.votes is not None
        start += len(part)


def test_five_equal_votes_leave_three_views_out(small_model: bytes) -> None:
    whole = onnx.load_model_from_string(small_model)
    alone = moves_graph(whole)
    assert alone is not None
    model = with_weights(alone, whole)
    (chosen,) = (node for node in model.graph.node if node.op_type == "NonZero")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(chosen.output[0]))
    whole.graph.output.append(onnx.helper.make_empty_tensor_value_info("favourite"))
    views, session = ReferenceEvaluator(whole), ReferenceEvaluator(model)
    asked = boards(64)
    moves, favorites = views.run(["move", "favourite"], {"boards": asked})
    found, undecided = session.run(["move", chosen.output[0]], {"boards": asked})
    np.testing.assert_array_equal(found, moves)
    first = np.asarray(favorites)[:, :5, 0]
    np.testing.assert_array_equal(
        np.asarray(undecided)[0], np.flatnonzero(first.min(axis=1) < first.max(axis=1))
    )


def test_a_graph_that_does_not_vote_has_none() -> None:
    assert moves_graph(onnx.load_model(newest("cnn5") / "model.int8.onnx")) is None


def test_a_vote_that_decides_in_another_way_has_none() -> None:
    model = onnx.load_model(FLAGSHIP)
    assert checked_moves_graph(model, boards(64)) is not None
    (best,) = (node for node in model.graph.node if node.output[0] == "best")
    best.op_type = "ArgMin"
    assert checked_moves_graph(model, boards(64)) is None
