"""The four afterstates of a board, as a piece of a folded graph: one table lookup slides each line.

A move slides four lines of four cells towards their first cell. Exponents of 0 to `largest` give
(largest + 1)**4 different lines, which `octofold_game.rules` slides in advance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import afterstates
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder

_BOARD = np.arange(16).reshape(4, 4)
_LINES = np.stack([_BOARD.T, _BOARD[:, ::-1], _BOARD.T[:, ::-1], _BOARD])
"""`[4, 4, 4]`: for each move (up, right, down, left) the cells of its lines, in the order of sliding."""
_LEFT = 3


@dataclass(frozen=True)
class Slides:
    """The names of the tensors with the results of the four moves of N boards."""

    cells: str
    "[N, 64] int32: exponents of the afterstates, at most the largest"
    places: NDArray[np.intp]
    "[4, 16]: which of the 64 is each cell of each move's afterstate"
    rewards: str
    "[N, 4] float32"
    outgrown: str
    "[N, 4] bool: the move makes a tile above the largest"


def slide_all(graph: GraphBuilder, cells: str, largest: int) -> Slides:
    """Slide `[N, 16] int32` exponents in four directions. Exponents above `largest` count as `largest`."""
    slid, rewards, outgrown = _line_tables(largest)
    limit = graph.constant("largest_exponent", np.array(largest, np.int32))
    known = graph.add("Min", [cells, limit], "known_cells")
    numbering = np.zeros((16, 16), np.int32)  # [cell, line of any move]
    for line, line_cells in enumerate(_LINES.reshape(16, 4)):
        numbering[line_cells, line] = (largest + 1) ** np.arange(4)
    lines = graph.add("MatMul", [known, graph.constant("line_numbering", numbering)], "lines")  # [N, 16]

    def look_up(name: str, table: NDArray[np.generic], *shape: int) -> str:
        found = graph.add("Gather", [graph.constant(f"line_{name}", table), lines], f"lines_{name}", axis=0)
        return graph.add("Reshape", [found, graph.integers(*shape)], f"moves_{name}")

    line_rewards = look_up("rewards", rewards, -1, 4, 4)
    line_outgrown = look_up("outgrown", outgrown, -1, 4, 4)
    moved = look_up("slid", slid, -1, 64)
    return Slides(
        cells=graph.add("Cast", [moved], "slid_cells", to=TensorProto.INT32),
        places=np.argsort(_LINES.reshape(4, 16), axis=1) + 16 * np.arange(4)[:, None],
        rewards=graph.add("ReduceSum", [line_rewards, graph.integers(2)], "rewards", keepdims=0),
        outgrown=graph.any(line_outgrown, 2, "any_outgrown"),
    )


def _line_tables(largest: int) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_]]:
    """For each line, numbered with its first cell as the lowest digit: its slide, reward and overflow."""
    powers = (largest + 1) ** np.arange(4)
    boards = np.zeros(((largest + 1) ** 4, 16), np.uint8)
    boards[:, :4] = np.arange(len(boards))[:, None] // powers % (largest + 1)
    after, rewards, _ = afterstates(boards)
    slid: NDArray[np.uint8] = after[:, _LEFT, :4]
    outgrown: NDArray[np.bool_] = slid.max(axis=1) > largest
    return slid.clip(max=largest), rewards[:, _LEFT].astype(np.float32), outgrown
