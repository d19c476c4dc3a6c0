"""An n-tuple network as the evaluator of a folded graph: the tables lie in a file beside the graph.

Each view is worth eight times what the tables hold for it, so that the mean over the eight views is the
network's value, a sum over all of them. Knows nothing about how tables are trained or saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_export.builder import GraphBuilder

TENSOR = "tables"
"""Name of the tensor that holds the values of all tables."""


@dataclass(frozen=True)
class TupleTables:
    """Tables `values` `[T * 16**L]`, one after another, for T tuples of L cells."""

    tuples: Sequence[Sequence[int]]
    values: NDArray[np.float32]

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Exponents `[N, P] int32` of 0 to 15 to `[N * V, 1, 1]`, see `heads.Evaluator`.

        The index of an entry is the number that its cells are the digits of, the first one lowest: one
        product of integers gives those of all tuples on all views.
        """
        seen = views[:, np.array(self.tuples)].reshape(-1, len(self.tuples[0]))  # [V * T, L]
        digits = np.zeros((views.max() + 1, len(seen)), np.int32)
        for column, places in enumerate(seen):
            digits[places, column] = 16 ** np.arange(len(places))
        starts = np.tile(np.arange(len(self.tuples)) * (len(self.values) // len(self.tuples)), len(views))
        numbers = graph.add("MatMul", [cells, graph.constant("tuple_digits", digits)], "tuple_numbers")
        offsets = graph.constant("table_starts", starts.astype(np.int32))
        entries = graph.add("Add", [numbers, offsets], "table_entries")  # [N, V * T]
        tables = graph.external(TENSOR, self.values)
        found = graph.add("Gather", [tables, entries], "table_values", axis=0)
        shape = graph.integers(-1, 1, len(self.tuples))
        by_view = graph.add("Reshape", [found, shape], "view_entries")
        total = graph.add("ReduceSum", [by_view, graph.integers(2)], "view_sums", keepdims=1)
        return graph.add("Mul", [total, graph.constant("views", np.array(8, np.float32))], "view_values")
