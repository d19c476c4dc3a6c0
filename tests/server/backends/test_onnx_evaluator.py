"""A network that a search asks: each output as the whole graph answers it, whatever else is asked."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from octofold_server.backends.backend import BackendError, Layout
from octofold_server.backends.onnx_backend import NO_TENSORS
from octofold_server.backends.onnx_evaluator import OnnxEvaluator
from octofold_server.backends.onnx_session import GraphError
from support.valued_graphs import valued

BOARDS = np.random.default_rng(3).integers(0, 8, (50, 16), dtype=np.uint8)
WORTH = np.linspace(-1, 1, 8, dtype=np.float32)
LAYOUT = Layout("cpu", 64, lanes=1)


@pytest.mark.parametrize("output", ["probabilities", "value"])
def test_an_evaluator_answers_as_the_whole_graph_does(graph: bytes, output: str) -> None:
    model = valued(graph, WORTH)
    evaluator = OnnxEvaluator(model, LAYOUT, NO_TENSORS, 7, cores=3)
    assert (evaluator.threads, evaluator.largest_exponent) == (3, 7)
    (expected,) = onnxruntime.InferenceSession(model).run([output], {"boards": BOARDS})
    for rows in (slice(0, 0), slice(0, 1), slice(1, 3), slice(3, 50), slice(0, 50)):
        answer = evaluator(output, BOARDS[rows])
        assert answer.dtype == np.float32
        np.testing.assert_array_equal(answer, expected[rows])


def test_an_output_that_the_graph_lacks_is_named(graph: bytes) -> None:
    evaluator = OnnxEvaluator(graph, LAYOUT, NO_TENSORS, 7, cores=1)
    assert evaluator("probabilities", BOARDS).shape == (50, 4)
    with pytest.raises(BackendError, match="the network has no output 'value'"):
        evaluator("value", BOARDS)


def test_a_graph_that_breaks_the_contract_is_refused(graph: bytes) -> None:
    two_dimensional = valued(graph, WORTH, ("N", 1))
    with pytest.raises(GraphError, match=r"its output 'value' is .* the graph contract requires"):
        OnnxEvaluator(two_dimensional, LAYOUT, NO_TENSORS, 7, cores=1)
