"""What the first layer of a network sees of a board: each cell by itself, or what tables say of four cells.

Each encoding is written twice: as nodes of a graph, and in numpy for calibration. Knows nothing of the layers
behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from octofold_export.builder import GraphBuilder

Floats = NDArray[np.float32]
Places = NDArray[np.intp]

_EXPONENT_CODES = 256  # all of uint8: a board that the network was not made for must not crash the runtime


class Encoder(Protocol):
    """The start of a network in some number format."""

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        """`[N, P] int32` exponents to `[N, Q, inputs]`, in the type that the first layer takes.

        `views` `[V, 16]` says which of the P cells the sixteen cells of each view show; what is returned
        beside, `[V, places]`, says which of the Q places each view shows. An exponent above the largest reads
        as the largest.
        """
        ...


class Encoding(Protocol):
    """The start of a trained network."""

    @property
    def exponents(self) -> int:
        """In which a cell is encoded; the largest tile is one less."""
        ...

    @property
    def whole(self) -> bool:
        """Whether activations are small whole numbers, which 8 bits hold as they are."""
        ...

    def activations(self, views: NDArray[np.uint8]) -> Floats:
        """`[N, 16]` boards to `[N, places, inputs]`."""
        ...

    def encoder(self) -> Encoder:
        """The same as nodes, in float32."""
        ...

    def rounded(self, spread: Floats, scale: np.float32, largest: int) -> Encoder:
        """The same as nodes, in whole steps of `scale` from 0 to `largest`, after division by `spread`."""
        ...


@dataclass(frozen=True, eq=False)
class CellCodes:
    """Looks up a row of `codes` `[exponents, inputs]` for each cell."""

    codes: NDArray[Any]

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        table = self.codes[np.minimum(np.arange(_EXPONENT_CODES), len(self.codes) - 1)]
        return graph.add("Gather", [graph.constant("codes", table), cells], "encoded", axis=0), views


@dataclass(frozen=True)
class OneHot:
    """Each cell by itself."""

    exponents: int
    whole = True

    def activations(self, views: NDArray[np.uint8]) -> Floats:
        return np.eye(self.exponents, dtype=np.float32)[views]

    def encoder(self) -> Encoder:
        return CellCodes(np.eye(self.exponents, dtype=np.float32))

    def rounded(self, spread: Floats, scale: np.float32, largest: int) -> Encoder:  # noqa: ARG002
        return CellCodes(np.eye(self.exponents, dtype=np.uint8))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a pattern lies, and what the pairs of its four cells say."""

    name: str
    places: NDArray[np.intp]
    "[places, 4] cells"
    pairs: NDArray[np.intp]
    "[pairs, 2]: which of the four"
    table: Floats
    "[pairs, exponents, exponents, features]"


@dataclass(frozen=True, eq=False)
class PatternSums:
    """The ReLU of sums over the pairs of four cells, for every place of every pattern.

    In 8 bits the sums of all cells' exponents are looked up at once, from a table that is made of the pairs':
    the first layer costs one read a place.
    """

    exponents: int
    patterns: tuple[Pattern, ...]
    whole = False

    def activations(self, views: NDArray[np.uint8]) -> Floats:
        found = []
        for pattern in self.patterns:
            cells = views[:, pattern.places]  # [N, places, 4]
            parts = (
                table[cells[..., first], cells[..., second]]
                for table, (first, second) in zip(pattern.table, pattern.pairs, strict=True)
            )
            found.append(np.maximum(sum(parts), 0))
        return np.concatenate(found, axis=1)

    def encoder(self) -> Encoder:
        return _FloatPatterns(self)

    def rounded(self, spread: Floats, scale: np.float32, largest: int) -> Encoder:
        every = np.indices((self.exponents,) * 4).reshape(4, -1).T.astype(np.uint8)  # [E**4, 4]
        tables = []
        for pattern in self.patterns:
            alone = Pattern(pattern.name, np.arange(4)[None], pattern.pairs, pattern.table)
            sums = PatternSums(self.exponents, (alone,)).activations(every)[:, 0]
            tables.append(np.rint(sums / spread / scale).clip(0, largest).astype(np.uint8))
        return _IntegerPatterns(self, tables)


@dataclass(frozen=True, eq=False)
class _FloatPatterns:
    sums: PatternSums

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        readable = _readable(graph, cells, self.sums.exponents)
        squared = self.sums.exponents**2

        def features(pattern: Pattern, seen: Places) -> str:
            # The row of a pair's table is the number that its two exponents are the digits of.
            first, second = seen[:, pattern.pairs].transpose(2, 0, 1)  # [Q, pairs] each
            digits = np.zeros((views.max() + 1, first.size), np.int32)
            digits[first.ravel(), np.arange(first.size)] = self.sums.exponents
            digits[second.ravel(), np.arange(first.size)] = 1
            starts = np.tile(np.arange(len(pattern.pairs)) * squared, len(seen)).astype(np.int32)
            numbers = graph.add(
                "MatMul",
                [readable, graph.constant(f"{pattern.name}_digits", digits)],
                f"{pattern.name}_pairs",
            )
            offsets = graph.constant(f"{pattern.name}_starts", starts)
            rows = graph.add("Add", [numbers, offsets], f"{pattern.name}_rows")
            flat = pattern.table.reshape(-1, pattern.table.shape[-1])
            table = graph.constant(f"{pattern.name}_table", flat)
            found = graph.add("Gather", [table, rows], f"{pattern.name}_found", axis=0)
            shape = graph.integers(0, len(seen), len(pattern.pairs), flat.shape[1])
            by_place = graph.add("Reshape", [found, shape], f"{pattern.name}_by_place")
            total = graph.add("ReduceSum", [by_place, graph.integers(2)], f"{pattern.name}_sums", keepdims=0)
            return graph.add("Relu", [total], f"{pattern.name}_features")

        return _join(graph, self.sums.patterns, views, features)


@dataclass(frozen=True, eq=False)
class _IntegerPatterns:
    sums: PatternSums
    tables: Sequence[NDArray[np.uint8]]
    "[exponents**4, features] for each pattern"

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        readable = _readable(graph, cells, self.sums.exponents)
        by_name = {
            pattern.name: table for pattern, table in zip(self.sums.patterns, self.tables, strict=True)
        }

        def features(pattern: Pattern, seen: Places) -> str:
            digits = np.zeros((views.max() + 1, len(seen)), np.int32)
            for place, power in enumerate((3, 2, 1, 0)):
                digits[seen[:, place], np.arange(len(seen))] = self.sums.exponents**power
            factors = graph.constant(f"{pattern.name}_digits", digits)
            rows = graph.add("MatMul", [readable, factors], f"{pattern.name}_rows")
            table = graph.constant(f"{pattern.name}_table", by_name[pattern.name])
            return graph.add("Gather", [table, rows], f"{pattern.name}_features", axis=0)

        return _join(graph, self.sums.patterns, views, features)


def _readable(graph: GraphBuilder, cells: str, exponents: int) -> str:
    largest = graph.constant("largest_exponent", np.array(exponents - 1, np.int32))
    return graph.add("Min", [cells, largest], "readable_cells")


def _join(
    graph: GraphBuilder, patterns: Sequence[Pattern], views: Places, features: Any
) -> tuple[str, Places]:
    """The features of all patterns, each computed once however many views show it; and who shows which."""
    parts, places, before = [], [], 0
    for pattern in patterns:
        shown = views[:, pattern.places]  # [V, places, 4]
        seen, which = np.unique(shown.reshape(-1, 4), axis=0, return_inverse=True)
        parts.append(features(pattern, seen))
        places.append(which.reshape(shown.shape[:2]) + before)
        before += len(seen)
    joined = parts[0] if len(parts) == 1 else graph.add("Concat", parts, "encoded", axis=1)
    return joined, np.concatenate(places, axis=1)
