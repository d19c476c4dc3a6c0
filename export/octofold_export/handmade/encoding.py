"""Encodes boards as the input of a network's first layer: single cells, or sums over patterns of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from octofold_export.graph.builder import GraphBuilder
from octofold_export.graph.encoded_body import EXPONENT_CODES
from octofold_export.handmade.geometry import Places

Floats = NDArray[np.float32]


class Encoder(Protocol):
    """The part of a network before its first matrix product, in one precision."""

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        """Encode exponents `[N, P] int32` for the first layer: return entries, and indices of entries.

        `views` `[V, 16]` gives, for each of the sixteen cells of a view, the index of one of the P cells. The
        entries `[N, Q, inputs]` encode single cells, or patterns at one position, in the type of the first
        layer. The indices `[V, places]` give, for each place of a view, one of the Q entries. Exponents above
        the largest count as the largest.
        """


@dataclass(frozen=True)
class OneHotCells:
    """One-hot encoding of single cells."""

    exponents: int

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        """Add the table lookup that encodes all cells, in float32."""
        codes = np.eye(self.exponents, dtype=np.float32)
        table = codes[np.minimum(np.arange(EXPONENT_CODES), self.exponents - 1)]
        return graph.add("Gather", [graph.constant("codes", table), cells], "encoded", axis=0), views


@dataclass(frozen=True, eq=False)
class Pattern:
    """A pattern of four cells: its places on the board, and a table for each pair of its cells."""

    name: str
    places: NDArray[np.intp]
    """The cells `[places, 4]` of the pattern at each place."""
    pairs: NDArray[np.intp]
    """The indices `[pairs, 2]` of the two cells of each pair among the four cells."""
    table: Floats
    """The tables `[pairs, exponents, exponents, features]`."""


@dataclass(frozen=True, eq=False)
class PatternSums:
    """The features of patterns: for each place, the ReLU of the sum of the table entries of its pairs."""

    exponents: int
    patterns: tuple[Pattern, ...]

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        """Add the table lookups and the sums for all places, in float32."""
        known = limit_exponents(graph, cells, self.exponents)
        squared = self.exponents**2
        exponents = graph.constant("exponents", np.array(self.exponents, np.int32))

        def features(pattern: Pattern, seen: Places) -> str:
            # The row in a pair's table is a number whose two digits are the exponents of the pair.
            first, second = (
                _cells(graph, known, f"{pattern.name}_{which}", seen[:, pattern.pairs[:, number]])
                for number, which in enumerate(("first", "second"))
            )
            tens = graph.add("Mul", [first, exponents], f"{pattern.name}_tens")
            numbers = graph.add("Add", [tens, second], f"{pattern.name}_numbers")
            starts = np.tile(np.arange(len(pattern.pairs)) * squared, len(seen)).astype(np.int32)
            offsets = graph.constant(f"{pattern.name}_starts", starts)
            rows = graph.add("Add", [numbers, offsets], f"{pattern.name}_rows")
            flat = pattern.table.reshape(-1, pattern.table.shape[-1])
            table = graph.constant(f"{pattern.name}_table", flat)
            found = graph.add("Gather", [table, rows], f"{pattern.name}_found", axis=0)
            shape = graph.integers(0, len(seen), len(pattern.pairs), flat.shape[1])
            by_place = graph.add("Reshape", [found, shape], f"{pattern.name}_by_place")
            total = graph.add("ReduceSum", [by_place, graph.integers(2)], f"{pattern.name}_sums", keepdims=0)
            return graph.add("Relu", [total], f"{pattern.name}_features")

        return _join(graph, self.patterns, views, features)


Encoding = OneHotCells | PatternSums
"""The input encoding of a trained network; `exponents` is one more than the largest exponent of a cell."""


def limit_exponents(graph: GraphBuilder, cells: str, exponents: int) -> str:
    """Limit cells to the largest exponent, which is one less than `exponents`."""
    largest = graph.constant("largest_exponent", np.array(exponents - 1, np.int32))
    return graph.add("Min", [cells, largest], "readable_cells")


def _cells(graph: GraphBuilder, cells: str, name: str, places: Places) -> str:
    index = graph.constant(f"{name}_places", places.ravel().astype(np.int64))
    return graph.add("Gather", [cells, index], f"{name}_cells", axis=1)


def _join(
    graph: GraphBuilder, patterns: Sequence[Pattern], views: Places, features: Any
) -> tuple[str, Places]:
    """Compute the features of each pattern once for all views that contain the same cells.

    Returns:
        The features, and the indices `[V, places]` of the features of each view.
    """
    parts, places, before = [], [], 0
    for pattern in patterns:
        shown = views[:, pattern.places]  # [V, places, 4]
        seen, which = np.unique(shown.reshape(-1, 4), axis=0, return_inverse=True)
        parts.append(features(pattern, seen))
        places.append(which.reshape(shown.shape[:2]) + before)
        before += len(seen)
    joined = parts[0] if len(parts) == 1 else graph.add("Concat", parts, "encoded", axis=1)
    return joined, np.concatenate(places, axis=1)
