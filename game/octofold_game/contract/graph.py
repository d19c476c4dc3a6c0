"""The contract of a model's graph: its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

CONTRACT = 1
"""Version of the graph's inputs and outputs, written into the graph's metadata."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output of the graph, for any number N of boards."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    """The shape without the batch dimension; -1 stands for a size that differs between graphs."""


BOARDS = Tensor("boards", np.dtype(np.uint8), (16,))
"""The input `[N, 16]`: the exponents of the cells, row by row; 0 for an empty cell."""

MOVE = Tensor("move", np.dtype(np.int8), ())
"""The move `[N]`: 0 up, 1 right, 2 down, 3 left; -1 when no move is legal."""
PROBABILITIES = Tensor("probabilities", np.dtype(np.float32), (4,))
"""The probabilities of the moves `[N, 4]`: 0 for illegal moves; their sum is 1, or 0 without a legal move."""
VOTES = Tensor("votes", np.dtype(np.uint8), (4,))
"""The votes `[N, 4]`: for each move, the number of views that prefer it among the legal moves."""
LEGAL = Tensor("legal", np.dtype(np.bool_), (4,))
"""The legal moves `[N, 4]`: True if a move is legal."""

OUTPUTS = (MOVE, PROBABILITIES, VOTES, LEGAL)
"""Outputs of every full graph, in this order; a graph for moves alone has only `move`."""

VIEWS = Tensor("views", np.dtype(np.float32), (-1, 4))
"""An optional output `[N, V, 4]` after `OUTPUTS`: the network's move probabilities for each view of a board,
in the order of the moves on the board itself."""

VALUE = Tensor("value", np.dtype(np.float32), ())
"""An optional output `[N]` after `OUTPUTS`: the mean of a value head over the views."""

VALUES = Tensor("values", np.dtype(np.float32), (4,))
"""An output `[N, 4]` of players: the values of the moves (`SearchResult.values` of `contract/searches.py`),
in the unit that the card names."""
DEPTH = Tensor("depth", np.dtype(np.uint8), ())
"""An output `[N]` of players: search depth in moves (`SearchResult.depth` of `contract/searches.py`)."""
POSITIONS = Tensor("positions", np.dtype(np.int64), ())
"""An output `[N]` of players: number of boards and afterstates that the search visited."""

SEARCH_OUTPUTS = (VALUES, DEPTH, POSITIONS)
"""Additional outputs of a player; `VALUES` is missing if the player does not value moves."""

UNPACKED_TABLES = "unpacked_tables"
"""Name of the tensor `[entries] float16` with the unpacked values of compact tables. A server may unpack them
itself, once for all its sessions."""

TEMPERATURE = 300.0
"""Default temperature of move probabilities: a move worth this many more points is e times as probable."""
