"""The body of a network, as the evaluator of a folded graph.

    cells [N, P] --views--> [N * V, 16] --encode--> input --body--> output --> [N * V, 1, numbers]

A body is an ONNX model with one input, one output and a free batch size. Its nodes are copied into the graph
under a prefix.
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
        answer = graph.graft(self.body, encoded, "body")
        (output,) = self.body.graph.output
        if output.type.tensor_type.elem_type != TensorProto.FLOAT:
            answer = graph.add("Cast", [answer], "answer_float", to=TensorProto.FLOAT)
        return graph.add("Reshape", [answer, graph.integers(-1, 1, answers.width)], "answer")
