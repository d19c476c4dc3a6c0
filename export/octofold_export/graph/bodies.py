"""The body of a network, as the evaluator of a folded graph.

    cells [N, P] --views--> [N * V, 16] --encode--> input --body--> output --> [N * V, 1, numbers]
                                                              `---> value head --> VIEW_VALUES [N * V]

A body is an ONNX model with one input, a free batch size, and one output or, with a value head, two. Its
nodes are copied into the graph under a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from octofold_export.description.description import Description
from octofold_export.description.encoding import COLUMNS_FIRST
from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.encodings import encode

VIEW_VALUES = "view_values"
"""The tensor `[N * V] float32` of a value head, in the graph of a network that has one."""


@dataclass(frozen=True, eq=False)
class DescribedBody:
    """Implements `heads.Evaluator`."""

    body: onnx.ModelProto
    description: Description

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate `[N, P] int32` exponents; returns `[N * V, 1, numbers] float32`, as `heads.Evaluator`."""
        reads, answers = self.description.reads, self.description.answers
        seen = views[:, COLUMNS_FIRST] if reads.cells == "columns" else views
        rows = cells
        if not np.array_equal(seen, np.arange(16)[None]):
            index = graph.constant("view_cells", seen.astype(np.int64))
            by_view = graph.add("Gather", [cells, index], "views_of_cells", axis=1)  # [N, V, 16]
            rows = graph.add("Reshape", [by_view, graph.integers(-1, 16)], "view_rows")
        encoded = encode(graph, rows, reads, self.description.largest_exponent)
        answer, *value = graph.graft(self.body, encoded, "body")
        if value:
            graph.add("Reshape", [_float(graph, value[0], "value"), graph.integers(-1)], VIEW_VALUES)
        return graph.add(
            "Reshape", [_float(graph, answer, "answer"), graph.integers(-1, 1, answers.width)], "answer"
        )


def _float(graph: GraphBuilder, tensor: str, name: str) -> str:
    return graph.add("Cast", [tensor], f"{name}_float", to=TensorProto.FLOAT)
