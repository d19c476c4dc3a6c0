"""The legality of moves, as a piece of a folded graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import LEGAL

from octofold_export.graph.builder import GraphBuilder


def legality(graph: GraphBuilder, cells: str) -> str:
    """Compute `legal` `[N, 4] bool` for `[N, 16] int32` exponents.

    A move is legal if and only if the next cell of some tile is empty or contains an equal tile.
    """
    targets, sources = _steps()
    into = graph.add("Gather", [cells, graph.constant("step_targets", targets)], "into", axis=1)
    moved = graph.add("Gather", [cells, graph.constant("step_sources", sources)], "moved", axis=1)
    empty = graph.constant("empty", np.array(0, np.int32))
    slides = graph.add("Equal", [into, empty], "slides")
    merges = graph.add("Equal", [into, moved], "merges")
    gives_way = graph.add("Or", [slides, merges], "gives_way")
    tile = graph.add("Greater", [moved, empty], "tile")
    steps = graph.add("And", [tile, gives_way], "steps")
    return graph.any(steps, 2, LEGAL.name)


def _steps() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each move, the cells that tiles move into and the cells that they move from: `[4, 12]` each."""
    board = np.arange(16).reshape(4, 4)
    up, left = (board[:-1].ravel(), board[1:].ravel()), (board[:, :-1].ravel(), board[:, 1:].ravel())
    pairs = np.array([up, left[::-1], up[::-1], left], np.int64)  # up, right, down, left
    return pairs[:, 0], pairs[:, 1]
