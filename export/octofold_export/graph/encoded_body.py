"""Encodes the views of boards as a network's input, and runs the network's body on them.

    cells [N, P] --views--> [N * V, 16] --encode--> input --body--> output --> [N * V, 1, numbers]
                                                              `---> value head --> VIEW_VALUES [N * V]

A body is an ONNX model with one input and a free batch size. It has one output, or two with a value head. Its
nodes are copied into the folded graph, with a prefix before their names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from octofold_export.description.description import COLUMNS_FIRST, Description, Reads, numbers
from octofold_export.graph.builder import GraphBuilder

VIEW_VALUES = "view_values"
"""Name of the tensor `[N * V] float32` with the value head's answer for each view."""
EXPONENT_CODES = 256
"""Number of rows in the table of an encoding: one for each uint8 value, so that every cell has a row."""


def encode_cells(graph: GraphBuilder, cells: str, reads: Reads, largest_exponent: int) -> str:
    """Encode exponents `[M, 16] int32`, in the network's order of cells, as the input `[M, *reads.shape]`.

    Exponents above `largest_exponent` count as `largest_exponent`. For every kind of input, one Gather from a
    table of 256 rows encodes the cells.
    """
    exponents = np.minimum(np.arange(EXPONENT_CODES), largest_exponent)
    if reads.planes is None:
        codes = numbers(reads, exponents)
    else:
        if reads.largest_plane is not None and reads.above == "clamped":
            exponents = np.minimum(exponents, reads.largest_plane)
        first = 0 if reads.empty_plane else 1
        codes = (exponents[:, None] == np.arange(first, first + reads.planes)).astype(np.float64)
    table = graph.constant("codes", codes.astype(reads.type))
    encoded = graph.add("Gather", [table, cells], "encoded", axis=0)  # [M, 16] or [M, 16, P]
    if reads.by_plane:
        encoded = graph.add("Transpose", [encoded], "encoded_planes", perm=[0, 2, 1])
    if reads.layout in ("tokens", "flat") and len(reads.shape) == codes.ndim:
        return encoded
    return graph.add("Reshape", [encoded, graph.integers(-1, *reads.shape)], "network_input")


def gather_views(graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
    """Return the views of boards as a batch: exponents `[N * V, 16]` for `cells` `[N, P]`.

    `views` `[V, 16]` gives, for each of the sixteen cells of a view, the index of one of the P cells.
    """
    if np.array_equal(views, np.arange(16)[None]):
        return cells
    index = graph.constant("view_cells", views.astype(np.int64))
    by_view = graph.add("Gather", [cells, index], "views_of_cells", axis=1)  # [N, V, 16]
    return graph.add("Reshape", [by_view, graph.integers(-1, 16)], "view_rows")


@dataclass(frozen=True, eq=False)
class EncodedBody:
    """A `heads.GraphEvaluator` that encodes boards as in `description`, and runs a network's body."""

    body: onnx.ModelProto
    description: Description

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate exponents `[N, P] int32`; returns `[N * V, 1, numbers]`, as in `heads.GraphEvaluator`."""
        reads, answers = self.description.reads, self.description.answers
        rows = gather_views(graph, cells, views[:, COLUMNS_FIRST] if reads.cells == "columns" else views)
        encoded = encode_cells(graph, rows, reads, self.description.largest_exponent)
        answer, *value = graph.graft(self.body, encoded, "body")
        if value:
            graph.add("Reshape", [_float(graph, value[0], "value"), graph.integers(-1)], VIEW_VALUES)
        return graph.add(
            "Reshape", [_float(graph, answer, "answer"), graph.integers(-1, 1, answers.width)], "answer"
        )


def _float(graph: GraphBuilder, tensor: str, name: str) -> str:
    return graph.add("Cast", [tensor], f"{name}_float", to=TensorProto.FLOAT)
