"""An n-tuple network as the evaluator of a folded graph, with its tables in a file beside the graph.

The value of each view is eight times the sum of its entries in the tables of its stage. The mean over the
eight views is therefore the network's value, which is the sum over all views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder

TENSOR = "tables"
"""Name of the tensor with the values of all tables."""


@dataclass(frozen=True)
class TupleTables:
    """Tables `values` `[S * T * 16**L]`, one after another, for S stages and T tuples of L cells.

    `stages` are the S - 1 exponents that begin the later stages, as in
    `octofold_players.ntuple.network.NTupleNetwork`.
    """

    tuples: Sequence[Sequence[int]]
    values: NDArray[np.float32]
    stages: Sequence[int] = ()

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate exponents `[N, P] int32` of 0 to 15; returns `[N * V, 1, 1]`, as `heads.Evaluator`.

        The index of an entry is the number whose digits are its cells, lowest first. One integer product
        gives the indices of all tuples on all views.
        """
        seen = views[:, np.array(self.tuples)].reshape(-1, len(self.tuples[0]))  # [V * T, L]
        digits = np.zeros((views.max() + 1, len(seen)), np.int32)
        for column, places in enumerate(seen):
            digits[places, column] = 16 ** np.arange(len(places))
        stage_size = len(self.values) // (len(self.stages) + 1)
        starts = np.arange(len(self.tuples)) * (stage_size // len(self.tuples))
        numbers = graph.add("MatMul", [cells, graph.constant("tuple_digits", digits)], "tuple_numbers")
        shape = graph.integers(-1, len(views), len(self.tuples))
        by_view = graph.add("Reshape", [numbers, shape], "view_numbers")
        table_starts = graph.constant("table_starts", starts.astype(np.int32))
        entries = graph.add("Add", [by_view, table_starts], "entries")
        if self.stages:
            size = graph.constant("stage_size", np.array(stage_size, np.int32))
            stage_starts = graph.add("Mul", [self._stage_of_views(graph, cells, views), size], "stage_starts")
            entries = graph.add("Add", [entries, stage_starts], "stage_entries")
        tables = graph.external(TENSOR, self.values)
        found = graph.add("Gather", [tables, entries], "table_values", axis=0)
        sums = graph.add("ReduceSum", [found, graph.integers(2)], "view_sums", keepdims=0)
        total = graph.add("Reshape", [sums, graph.integers(-1, 1, 1)], "view_totals")
        return graph.add(
            "Mul", [total, graph.constant("number_of_views", np.array(8, np.float32))], "view_values"
        )

    def _stage_of_views(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """The stage of each view, `[N, V, 1] int32`, computed once for the views of the same position."""
        positions, shown = np.unique(np.sort(views, axis=1), axis=0, return_inverse=True)  # [P, 16], [V]
        places = graph.constant("position_places", positions)
        boards = graph.add("Gather", [cells, places], "position_cells", axis=1)
        reached = stage = ""
        for number, exponent in enumerate(self.stages, 1):
            tile = graph.constant(f"tile_{number}", np.array(exponent, np.int32))
            counts = "GreaterOrEqual" if number == 1 else "Equal"
            held = graph.any(graph.add(counts, [boards, tile], f"alike_{number}"), 2, f"held_{number}")
            reached = graph.add("And", [reached, held], f"reached_{number}") if reached else held
            one = graph.add("Cast", [reached], f"one_{number}", to=TensorProto.INT32)
            stage = graph.add("Add", [stage, one], f"stage_{number}") if stage else one  # [N, P]
        shown_by = graph.constant("positions_of_views", shown.reshape(-1))
        by_view = graph.add("Gather", [stage, shown_by], "view_stages", axis=1)
        return graph.add("Unsqueeze", [by_view, graph.integers(2)], "view_stage")
