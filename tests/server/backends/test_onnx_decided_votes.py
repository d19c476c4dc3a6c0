"""Moves alone, in less time: they are those of the published graph."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_game.rules import legal_moves
from octofold_server.backends.backend import Asked, Layout
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_server.backends.onnx_decided_votes import move_graph
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


def test_moves_alone_are_those_of_the_whole_graph_ties_included() -> None:
    model = FLAGSHIP.read_bytes()
    assert move_graph(model) is not None
    (lane,) = onnx_lanes(model, Layout("cpu", 64, lanes=1))
    assert lane.in_stages
    asked = boards(1_000)
    assert {0, 1, 2, 3, 4} <= set(legal_moves(asked).sum(axis=1).tolist())
    start, sizes = 0, [1, 3, 4, 5, 17, 64]
    while start < len(asked):
        part = asked[start : start + sizes[start % len(sizes)]]
        whole, alone = lane.run(part), lane.run(part, Asked())
        np.testing.assert_array_equal(alone.moves, whole.moves)
        assert alone.votes is None
        assert whole.votes is not None
        start += len(part)


@pytest.mark.parametrize("name", ["swift", "flagship", "cnn5"])
def test_int8_of_this_cpu_makes_the_moves_of_exact_arithmetic(name: str) -> None:
    model = (newest(name) / "model.int8.onnx").read_bytes()
    (lane,) = onnx_lanes(model, Layout("cpu", 64, lanes=1))
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # float32 multiplies
    exact = onnxruntime.InferenceSession(model, plain)
    asked = boards(128)
    late = asked[::2]
    late[late > 0] += 4  # up to 32768
    (moves,) = exact.run(["move"], {"boards": asked})
    found = np.concatenate([lane.run(part).moves for part in np.split(asked, 2)])
    assert np.mean(found == moves) > 0.98  # without VNNI, sums of two products may saturate


def test_five_equal_votes_leave_three_views_out(small_model: bytes) -> None:
    shorter = move_graph(small_model)
    assert shorter is not None
    model = onnx.load_model_from_string(shorter)
    (chosen,) = (node for node in model.graph.node if node.op_type == "NonZero")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(chosen.output[0]))
    whole = onnx.load_model_from_string(small_model)
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


def test_a_graph_of_another_form_answers_with_all_its_nodes(graph: bytes) -> None:
    assert move_graph(graph) is None
    (lane,) = onnx_lanes(graph, Layout("cpu", 8, lanes=1))
    asked = boards(8)
    np.testing.assert_array_equal(lane.run(asked, Asked()).moves, lane.run(asked).moves)


def test_a_vote_that_decides_in_another_way_runs_all_its_views(caplog: pytest.LogCaptureFixture) -> None:
    model = onnx.load_model(FLAGSHIP)
    (best,) = (node for node in model.graph.node if node.output[0] == "best")
    best.op_type = "ArgMin"
    (lane,) = onnx_lanes(model.SerializeToString(), Layout("cpu", 64, lanes=1))
    assert "the shorter graph has other moves" in caplog.text
    asked = boards(64)
    np.testing.assert_array_equal(lane.run(asked, Asked()).moves, lane.run(asked).moves)
