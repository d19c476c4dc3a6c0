"""Which moves of a board are legal, as a piece of a folded graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.model import LEGAL

from octofold_export.graph.builder import GraphBuilder


def legality(graph: GraphBuilder, cells: str) -> str:
    """`[N, 16] int32` exponents to `legal` `[N, 4] bool`.

    A move changes the board if and only if some cell along it holds a tile whose next cell is empty or holds
    its equal.
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
    """`[4, 12]` each: per move, the cells that tiles step into and the cells that they step from."""
    board = np.arange(16).reshape(4, 4)
    up, left = (board[:-1].ravel(), board[1:].ravel()), (board[:, :-1].ravel(), board[:, 1:].ravel())
    pairs = np.array([up, left[::-1], up[::-1], left], np.int64)  # up, right, down, left
    return pairs[:, 0], pairs[:, 1]
