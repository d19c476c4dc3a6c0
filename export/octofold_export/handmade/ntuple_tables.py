"""An n-tuple network as the evaluator of a folded graph. Its tables are in the graph or in a file beside it.

The value of a view is eight times the sum of its table entries in the stage of the view. The mean over the
eight views is therefore the network's value, which is the sum over all views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import UNPACKED_TABLES
from octofold_players.ntuple.compact_tables import BLOCKS, UNIT, CompactTables
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder

TENSOR = "tables"
"""Name of the tensor with the values of all tables."""


@dataclass(frozen=True)
class FullTablesEvaluator:
    """A `heads.GraphEvaluator` with all tables in an external file.

    `values` `[S * T * 16**L]` are the tables one after another, for S stages and T tuples of L cells.
    `stages` are the S - 1 exponents that begin the later stages, as in `ntuple.network.NTupleNetwork`.
    """

    tuples: Sequence[Sequence[int]]
    values: NDArray[np.float32]
    stages: Sequence[int] = ()

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate exponents `[N, P] int32` of 0 to 15; returns `[N * V, 1, 1]`."""
        entries = _entries(graph, cells, views, self.tuples, self.stages, len(self.values))
        tables = graph.external(TENSOR, self.values)
        return _view_values(graph, graph.add("Gather", [tables, entries], "table_values", axis=0), 1)


@dataclass(frozen=True)
class CompactTablesEvaluator:
    """A `heads.GraphEvaluator` with compact tables in the graph (`octofold_players.ntuple.compact_tables`).

    The graph contains the packed arrays and the nodes that unpack them. These nodes depend on no input, so
    onnxruntime runs them once when it loads the graph. Each entry then costs one lookup in a plain table. A
    runtime without constant folding gives the same answers, but slowly.
    """

    tables: CompactTables

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Evaluate exponents `[N, P] int32` of 0 to 15; returns `[N * V, 1, 1]`."""
        packed = self.tables
        entries = _entries(graph, cells, views, packed.tuples, packed.stages, packed.entries)
        found = graph.add("Gather", [self._unpacked_tables(graph), entries], "entry_halves", axis=0)
        floats = graph.add("Cast", [found], "entry_values", to=TensorProto.FLOAT)
        return _view_values(graph, floats, UNIT)

    def _unpacked_tables(self, graph: GraphBuilder) -> str:
        """Return the entries of all tables, `[entries] float16`; they do not depend on the boards.

        Each step restores the omitted blocks of one size as zeros, from single entries to the largest blocks.
        It puts a row of zeros before the kept blocks, and looks up that row for every omitted block.
        """
        rows = graph.add("Cast", [self._kept_values(graph)], "kept_halves", to=TensorProto.FLOAT16)
        for size, bits in reversed(list(zip(BLOCKS, self.tables.bits, strict=True))):
            rows = graph.add("Reshape", [rows, graph.integers(-1, size)], f"kept_blocks_{size}")
            nothing = graph.constant(f"empty_block_{size}", np.zeros((1, size), np.float16))
            rows = graph.add("Concat", [nothing, rows], f"ranked_blocks_{size}", axis=0)
            ranks = _ranks(graph, f"bits_{size}", bits)
            rows = graph.add("Gather", [rows, ranks], f"filled_blocks_{size}", axis=0)
        return graph.add("Reshape", [rows, graph.integers(-1)], UNPACKED_TABLES)

    def _kept_values(self, graph: GraphBuilder) -> str:
        """Return the values `[kept] float32` of the kept entries."""
        packed = self.tables
        bytes_of_codes = graph.constant("codes", packed.codes)
        codes = graph.add("Cast", [bytes_of_codes], "code_numbers", to=TensorProto.INT32)
        rounded = graph.add("Gather", [graph.constant("codebook", packed.codebook), codes], "rounded", axis=0)
        step_table = graph.constant("correction_steps", packed.correction_steps)
        steps = graph.add("Gather", [step_table, codes], "kept_steps", axis=0)
        stored = graph.constant("corrections", packed.corrections)
        numbers = graph.add("Cast", [stored], "correction_numbers", to=TensorProto.FLOAT)
        nothing = graph.constant("no_correction", np.zeros(1, np.float32))
        ranked = graph.add("Concat", [nothing, numbers], "ranked_corrections", axis=0)
        ranks = _ranks(graph, "precise", packed.precise)
        corrections = graph.add("Gather", [ranked, ranks], "kept_corrections", axis=0)
        differences = graph.add("Mul", [steps, corrections], "rounding_errors")
        return graph.add("Add", [rounded, differences], "kept_values")


def _entries(
    graph: GraphBuilder,
    cells: str,
    views: NDArray[np.intp],
    cells_of_tuples: Sequence[Sequence[int]],
    stages: Sequence[int],
    size: int,
) -> str:
    """Return the index `[N, V, T] int32` of the entry that each tuple reads on each view.

    The tables have `size` entries together. Within a table, the index of an entry is a hexadecimal number
    whose digits are the exponents of its cells, lowest first. One product gives the indices of all tuples on
    all views. Below 2**24, a product in float32 is exact, and much faster than one in integers.
    """
    tuples = np.array(cells_of_tuples)
    number, length = tuples.shape
    in_floats = length <= 6
    seen = views[:, tuples].reshape(-1, length)  # [V * T, L]
    digits = np.zeros((views.max() + 1, len(seen)), np.float32 if in_floats else np.int32)
    for column, places in enumerate(seen):
        digits[places, column] = 16 ** np.arange(length)
    numbers = graph.add("Cast", [cells], "float_cells", to=TensorProto.FLOAT) if in_floats else cells
    products = graph.add("MatMul", [numbers, graph.constant("tuple_digits", digits)], "tuple_numbers")
    indices = graph.add("Cast", [products], "table_entries", to=TensorProto.INT32)
    shape = graph.integers(-1, len(views), number)
    by_view = graph.add("Reshape", [indices, shape], "entries_by_view")
    starts = graph.constant("table_starts", (np.arange(number) * 16**length).astype(np.int32))
    entries = graph.add("Add", [by_view, starts], "entries")
    if not stages:
        return entries
    stage_starts = _stage_starts(graph, cells, views, stages, size // (len(stages) + 1))
    return graph.add("Add", [entries, stage_starts], "stage_entries")


def _view_values(graph: GraphBuilder, found: str, unit: int) -> str:
    """Return the values `[N * V, 1, 1]` of views in points, from their entries `[N, V, T] float32`.

    `unit` is the number of points in a unit of the entries.
    """
    sums = graph.add("ReduceSum", [found, graph.integers(2)], "view_sums", keepdims=0)
    total = graph.add("Reshape", [sums, graph.integers(-1, 1, 1)], "view_totals")
    factor = graph.constant("view_factor", np.array(8 * unit, np.float32))
    return graph.add("Mul", [total, factor], "view_values")


def _stage_starts(
    graph: GraphBuilder, cells: str, views: NDArray[np.intp], stages: Sequence[int], stage_size: int
) -> str:
    """Return the index `[N, V, 1] int32` of the first entry of each view's stage.

    The stage is computed once for all views of a position.
    """
    positions, shown = np.unique(np.sort(views, axis=1), axis=0, return_inverse=True)  # [P, 16], [V]
    places = graph.constant("position_places", positions)
    boards = graph.add("Gather", [cells, places], "position_cells", axis=1)
    reached = stage = ""
    for number, exponent in enumerate(stages, 1):
        tile = graph.constant(f"tile_{number}", np.array(exponent, np.int32))
        counts = "GreaterOrEqual" if number == 1 else "Equal"
        held = graph.any(graph.add(counts, [boards, tile], f"alike_{number}"), 2, f"held_{number}")
        reached = graph.add("And", [reached, held], f"reached_{number}") if reached else held
        one = graph.add("Cast", [reached], f"one_{number}", to=TensorProto.INT32)
        stage = graph.add("Add", [stage, one], f"stage_{number}") if stage else one  # [N, P]
    shown_by = graph.constant("positions_of_views", shown.reshape(-1))
    by_view = graph.add("Gather", [stage, shown_by], "view_stages", axis=1)
    view_stage = graph.add("Unsqueeze", [by_view, graph.integers(2)], "view_stage")
    size = graph.constant("stage_size", np.array(stage_size, np.int32))
    return graph.add("Mul", [view_stage, size], "stage_starts")


def _bits(graph: GraphBuilder, packed: str, output: str) -> str:
    """Split bytes `[M]` into bits, lowest first: `[8 * M] int32`."""
    shifts = graph.constant("shifts_of_1", np.arange(8, dtype=np.uint8))
    mask = graph.constant("mask_of_1", np.array(1, np.uint8))
    column = graph.add("Reshape", [packed, graph.integers(-1, 1)], f"{output}_column")
    shifted = graph.add("BitShift", [column, shifts], f"{output}_shifted", direction="RIGHT")
    fields = graph.add("BitwiseAnd", [shifted, mask], f"{output}_fields")
    flat = graph.add("Reshape", [fields, graph.integers(-1)], f"{output}_flat")
    return graph.add("Cast", [flat], output, to=TensorProto.INT32)


def _ranks(graph: GraphBuilder, name: str, packed: NDArray[np.uint8]) -> str:
    """Return, for each set bit, the number of set bits up to it, and 0 for other bits: `[8 * M] int32`."""
    bits = _bits(graph, graph.constant(name, packed), f"{name}_apart")
    axis = graph.constant("first_axis", np.array(0, np.int32))
    counts = graph.add("CumSum", [bits, axis], f"{name}_counts")
    return graph.add("Mul", [bits, counts], f"{name}_ranks")
