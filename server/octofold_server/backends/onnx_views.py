"""Computes the probabilities of moves in each view of a board, to show how a model decides.

A view is a rotated or mirrored board. The contract allows a graph to have the output `views`. Most graphs
have only a tensor from which `views` can be computed. This module appends an output to these graphs:
concatenating two serialized protobuf messages merges them, so a few bytes after the file add nodes and an
output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, LEGAL, VIEWS
from octofold_game.errors import first_line
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.backend import BackendError, Layout, Tensors
from octofold_server.backends.onnx_session import APPENDED_VIEWS, has_output, new_session
from octofold_server.backends.onnx_tables import without_tables

PROBABILITIES = "view_probabilities"
"""The name of the tensor [N, V, 4] with the probabilities of a policy network in exported graphs."""

SCORES = "legal_scores"
"""The name of the tensor [N, V, 4] with logits or points in exported graphs; illegal moves have very low
numbers."""

_FLOAT = 1
"""The number of the element type float32 in an ONNX file."""


class NoViews(BackendError):
    """The graph has no tensor from which the probabilities of each view can be computed."""


class ViewsSession:
    """A session that computes the probabilities of each view, turned back to the board's orientation.

    Args:
        model: the graph.
        layout: the device and the threads.
        tensors: the tensors that the graph refers to, by name.
        temperature: temperature of the softmax over points, for a network that rates moves in points.

    Raises:
        NoViews: the graph has no tensor from which the probabilities can be computed.
        GraphError: onnxruntime cannot run the graph, or the graph breaks the contract.
    """

    def __init__(self, model: bytes, layout: Layout, tensors: Tensors, temperature: float) -> None:
        self._views = VIEWS.name
        model, self._tables = without_tables(model, None)  # reuses the tables of the lanes
        if not has_output(model, VIEWS.name):
            self._views = APPENDED_VIEWS
            model += appended_views(model, temperature)
        self._session = new_session(model, layout, tensors)

    def run(self, boards: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the probabilities [N, V, 4] for boards [N, 16]; 0 for illegal moves.

        Raises:
            BackendError: the graph failed.
        """
        try:
            views, legal = self._session.run([self._views, LEGAL.name], {BOARDS.name: boards, **self._tables})
        except Exception as error:  # onnxruntime's exceptions have only this base class
            raise BackendError(f"the views of a board cannot be computed: {first_line(error)}") from error
        return np.where(legal[:, None], views, np.float32(0))


def appended_views(model: bytes, temperature: float) -> bytes:
    """Return bytes that add the output `APPENDED_VIEWS` to a graph when they are appended to its file.

    Raises:
        NoViews: the graph has no tensor from which the output can be computed.
    """
    graph = onnx.Graph()
    if PROBABILITIES.encode() in model:
        graph.node.add(op_type="Identity", input=[PROBABILITIES], output=[APPENDED_VIEWS])
    elif SCORES.encode() in model:
        factor = np.float32(1 / temperature).tobytes()
        graph.initializer.add(name="views_factor", data_type=_FLOAT, raw_data=factor)
        graph.node.add(op_type="Mul", input=[SCORES, "views_factor"], output=["views_tempered"])
        graph.node.add(op_type="Softmax", input=["views_tempered"], output=[APPENDED_VIEWS])
    else:
        raise NoViews(f"the graph has none of the tensors {VIEWS.name}, {PROBABILITIES} and {SCORES}")
    kind = onnx.Type(tensor_type=onnx.Type.TensorType(elem_type=_FLOAT))
    graph.output.add(name=APPENDED_VIEWS, type=kind)
    return onnx.Model(graph=graph).SerializeToString()
