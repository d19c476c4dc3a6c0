"""Compact tables of an n-tuple network (`octofold_players.compact_tables`) as a piece of a folded graph.

The hash is computed in nodes, in 32-bit unsigned integers, which wrap around. The slots stay as small as
they are published, and the graph needs no files beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_players.compact_tables import MULTIPLIERS, SEGMENT_BITS, CompactTables
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder

SLOTS = "slots"
UPPER_SLOTS = "upper_slots"
CODEBOOK = "codebook"


@dataclass(frozen=True)
class CompactEvaluator:
    """Looks the entries of a position up in the slots; see `graph.heads.Evaluator`."""

    tables: CompactTables

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Exponents `[N, P] int32` of 0 to 15 to `[N * V, 1, 1]`."""
        places, fingerprints = self._places(graph, self._numbers(graph, cells, views))
        lower = self._mixed(graph, SLOTS, self.tables.slots, places)
        upper = self._mixed(graph, UPPER_SLOTS, self.tables.upper_slots, places)
        raised = graph.add("Mul", [upper, _word(graph, 1 << 16)], "raised")
        slots = graph.add("BitwiseXor", [lower, raised], "mixed_slots")
        numbers = graph.add("BitwiseXor", [slots, fingerprints], "any_codes")
        # The number of an entry that was left out is no code: it reads the 0 behind the codebook.
        codebook = self.tables.codebook
        known = graph.add("Min", [numbers, _word(graph, len(codebook))], "known_codes")
        codes = graph.add("Cast", [known], "codes", to=TensorProto.INT32)
        padded = graph.constant(CODEBOOK, np.append(codebook, np.float32(0)))
        values = graph.add("Gather", [padded, codes], "entry_values", axis=0)
        by_view = graph.integers(-1, len(views), len(self.tables.tuples))
        shaped = graph.add("Reshape", [values, by_view], "view_entries")
        sums = graph.add("ReduceSum", [shaped, graph.integers(2)], "view_sums", keepdims=0)
        total = graph.add("Reshape", [sums, graph.integers(-1, 1, 1)], "view_totals")
        return graph.add("Mul", [total, graph.constant("views", np.array(8, np.float32))], "view_values")

    def _mixed(self, graph: GraphBuilder, name: str, slots: NDArray[Any], places: list[str]) -> str:
        """`[N, V * T] uint32`: the XOR of the three slots of each entry."""
        table = graph.constant(name, slots)
        found = [
            graph.add("Gather", [table, place], f"{name}_{number}", axis=0)
            for number, place in enumerate(places)
        ]
        two = graph.add("BitwiseXor", found[:2], f"{name}_of_two")
        three = graph.add("BitwiseXor", [two, found[2]], f"{name}_of_three")
        return graph.add("Cast", [three], f"{name}_mixed", to=TensorProto.UINT32)

    def _numbers(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """`[N, V * T] uint32`: the hash of each entry before it is scrambled.

        The index in a table is below 2**24, so a product in float32 gives it exactly, and much faster than
        one in integers.
        """
        tuples = np.array(self.tables.tuples)
        seen = views[:, tuples].reshape(-1, tuples.shape[1])  # [V * T, L]
        digits = np.zeros((views.max() + 1, len(seen)), np.float32)
        for column, places in enumerate(seen):
            digits[places, column] = 16.0 ** np.arange(len(places))
        numbers = graph.add("Cast", [cells], "float_cells", to=TensorProto.FLOAT)
        indices = graph.add("MatMul", [numbers, graph.constant("tuple_digits", digits)], "float_indices")
        table_size = 1 << 4 * tuples.shape[1]
        starts = np.tile(np.arange(len(tuples), dtype=np.uint64) * table_size, len(views))
        added = (starts * MULTIPLIERS[0] + self.tables.seed) & 0xFFFFFFFF
        words = graph.add("Cast", [indices], "indices", to=TensorProto.UINT32)
        times = graph.add("Mul", [words, _word(graph, MULTIPLIERS[0])], "times")
        return graph.add("Add", [times, graph.constant("starts", added.astype(np.uint32))], "numbers")

    def _places(self, graph: GraphBuilder, numbers: str) -> tuple[list[str], str]:
        """The three places `[N, V * T] int32` in the slots, and the fingerprints `uint32`, as in
        `octofold_players.compact_tables.places`.
        """

        def shift(word: str, bits: int, output: str) -> str:
            return graph.add("BitShift", [word, _word(graph, bits)], output, direction="RIGHT")

        def drawn(multiplier: int, bits: int, output: str) -> str:
            product = graph.add("Mul", [mixed, _word(graph, multiplier)], f"{output}_product")
            return shift(product, 32 - bits, output)

        half = graph.add("BitwiseXor", [numbers, shift(numbers, 15, "numbers_shifted")], "half_mixed")
        scrambled = graph.add("Mul", [half, _word(graph, MULTIPLIERS[1])], "scrambled")
        mixed = graph.add("BitwiseXor", [scrambled, shift(scrambled, 13, "scrambled_shifted")], "hashes")
        segments = (len(self.tables.slots) >> SEGMENT_BITS) - 2
        scaled = graph.add("Mul", [shift(mixed, 16, "high"), _word(graph, segments)], "scaled_segment")
        segment = graph.add("BitwiseAnd", [scaled, _word(graph, 0xFFFF0000)], "segment_starts")
        offsets = [
            graph.add("BitwiseAnd", [mixed, _word(graph, 0xFFFF)], "first_offset"),
            drawn(MULTIPLIERS[2], 16, "second_offset"),
            drawn(MULTIPLIERS[3], 16, "third_offset"),
        ]
        places = []
        for number, offset in enumerate(offsets):
            start = segment
            if number:
                ahead = _word(graph, number << SEGMENT_BITS)
                start = graph.add("Add", [segment, ahead], f"segment_{number}")
            place = graph.add("Add", [start, offset], f"place_{number}")
            places.append(graph.add("Cast", [place], f"index_{number}", to=TensorProto.INT32))
        return places, drawn(MULTIPLIERS[4], 24, "fingerprints")


def _word(graph: GraphBuilder, number: int) -> str:
    return graph.constant(f"word_{number:x}", np.array(number, np.uint32))
