"""A network whose first layer looks up the features of four cells in tables, without multiplications.

A feature belongs to a line (row or column) or a 2x2 square. Each of the six pairs of its cells selects a
table entry by its two exponents, and the feature is the ReLU of the sum of these entries. A convolution over
one-hot cells has a separate term for each cell. An entry for a pair also captures how two cells belong
together: that they merge, or that they are in order. Only the dense layers need multiplications. They come
after the lookup and see the whole board. The idea comes from n-tuple networks (Szubert and Jaskowski, CIG
2014), which add up the entries of all features.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from octofold_training.networks.architectures import DenseSizes, PlanesArchitecture, Size
from octofold_training.networks.dense import dense_layers, through_dense

Pattern = Literal["lines", "squares"]

_CELLS = np.arange(16).reshape(4, 4)
PATTERNS: dict[Pattern, NDArray[np.int_]] = {
    "lines": np.concatenate([_CELLS, _CELLS.T]),
    "squares": np.array([_CELLS[r : r + 2, c : c + 2].ravel() for r in range(3) for c in range(3)]),
}
"""The four cells `[places, 4]` of each place of a pattern. All places of a pattern share one table."""

PAIRS = tuple(combinations(range(4), 2))
"""The pairs of four cells, in the order of a table's rows."""


class PairNetwork(nn.Module):
    """A network that computes features for every place of its patterns, followed by dense layers.

    `tables` has one table `[6 * exponents**2, features]` per pattern. The row of pair `p` with exponents `a`
    and `b` is `(p * exponents + a) * exponents + b`. The input of the dense layers is ordered by pattern,
    place and feature.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        features: int,
        dense: Sequence[int],
        exponents: int,
        outputs: int = 4,
    ) -> None:
        super().__init__()
        self.patterns = tuple(patterns)
        self.exponents = exponents
        spread = (2 / len(PAIRS)) ** 0.5  # so that the variance stays the same after the ReLU
        self.tables = nn.ParameterList(
            torch.randn(len(PAIRS) * exponents**2, features) * spread for _ in patterns
        )
        places = sum(len(PATTERNS[pattern]) for pattern in patterns)
        self.dense = dense_layers([places * features, *dense, outputs])
        for pattern in patterns:  # the cells of each pair, [places, 6, 2]
            pairs = torch.from_numpy(PATTERNS[pattern][:, np.array(PAIRS)])
            self.register_buffer(f"{pattern}_pairs", pairs, persistent=False)
        self.register_buffer("first_rows", torch.arange(len(PAIRS)) * exponents**2, persistent=False)

    def forward(self, one_hot: Tensor) -> Tensor:
        """Return logits `[N, 4]` or values `[N, 1]` for one-hot planes `[N, exponents, 4, 4]`.

        Hidden layers compute in the type of `one_hot`.
        """
        exponents = one_hot.argmax(dim=1).flatten(1)
        found = []
        for pattern, table in zip(self.patterns, self.tables, strict=True):
            first, second = exponents[:, self.get_buffer(f"{pattern}_pairs")].unbind(dim=3)
            rows = first * self.exponents + second + self.get_buffer("first_rows")
            look_up = sums_by_matmul if table.is_cuda else sums_by_lookup
            sums = look_up(rows.flatten(0, 1), table, one_hot.dtype)
            found.append(sums.view(*rows.shape[:2], table.shape[1]).flatten(1))
        return through_dense(torch.relu(torch.cat(found, dim=1)), self.dense)


def sums_by_lookup(rows: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Return sums `[M, features]` of six rows of a table. `rows` `[M, 6]` are their indices.

    This is a lookup in float32, which suits a CPU.
    """
    return embedding_bag(rows, table, mode="sum").to(dtype)


def sums_by_matmul(rows: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sums of `sums_by_lookup`, by a matrix product in `dtype`.

    This suits a GPU, because the gradients of a lookup would need sorted rows.
    """
    chosen = torch.zeros(len(rows), len(table), dtype=dtype, device=rows.device).scatter_(1, rows, 1.0)
    return chosen @ table.to(dtype)


class PairArchitecture(PlanesArchitecture, frozen=True, kw_only=True, tag="pairs"):
    """The architecture of a `PairNetwork`."""

    patterns: Annotated[
        list[Pattern], msgspec.Meta(min_length=1, description="patterns of four cells: 'lines', 'squares'")
    ]
    features: Annotated[Size, msgspec.Meta(description="number of features computed for each line or square")]
    dense: DenseSizes

    def __post_init__(self) -> None:
        """Check the patterns. Raises `ValueError` if a pattern is named twice."""
        super().__post_init__()
        if len(set(self.patterns)) < len(self.patterns):
            raise ValueError(f"patterns must not repeat a pattern, got {self.patterns}")

    def build(self) -> PairNetwork:
        """Return a network with fresh weights."""
        return PairNetwork(self.patterns, self.features, self.dense, self.exponents, self.outputs)
