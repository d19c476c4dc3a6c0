"""The solver finds the chances of a slow, plain one, and loses little where it leaves positions out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from octofold_game import rules
from octofold_players.endgame.formation import CHECKERED, formation, kept_cells
from octofold_players.endgame.solver import Endgame, solve

BLOCK = formation([0, 1, 2, 4, 5, 6])
ROW_AND_TWO = formation([0, 1, 2, 3, 4, 5])
Board = tuple[int, ...]


class SlowSolver:
    """The definition, by recursion over whole boards and the rules of the game."""

    def __init__(self, kept: np.uint64, goal: int) -> None:
        start = unpacked(int(CHECKERED & kept))
        self.kept = {cell: start[cell] for cell in kept_cells(kept)}
        self.goal = goal
        self.chance = cache(self._chance)

    def _chance(self, position: Board) -> float:
        empty = [cell for cell in range(16) if position[cell] == 0]
        if not empty:
            return 0.0
        total = 0.0
        for cell in empty:
            for exponent, share in ((1, 0.9), (2, 0.1)):
                board = np.array(position, np.uint8)
                board[cell] = exponent
                total += share * self._best(board)
        return total / len(empty)

    def _best(self, board: np.ndarray) -> float:
        afterstates, _, legal = rules.afterstates(board[None])
        best = 0.0
        for move in range(4):
            after = afterstates[0, move]
            if legal[0, move] and all(after[cell] == tile for cell, tile in self.kept.items()):
                free = [int(after[cell]) for cell in range(16) if cell not in self.kept]
                best = max(best, 1.0 if max(free) >= self.goal else self.chance(tuple(map(int, after))))
        return best


def unpacked(position: int) -> Board:
    return tuple(position >> 4 * cell & 15 for cell in range(16))


@pytest.mark.parametrize("kept", [BLOCK, ROW_AND_TWO, formation(range(7))], ids=hex)
def test_chances_are_those_of_a_plain_recursion_over_the_rules(kept: np.uint64) -> None:
    slow = SlowSolver(kept, goal=3)
    layers = solve(Endgame(kept, goal=3, single_from=3))
    for layer in layers:
        for position, chance in zip(layer.positions.tolist(), layer.chances.tolist(), strict=True):
            assert abs(chance - slow.chance(unpacked(position))) < 1e-6
    assert sum(len(layer.positions) for layer in layers) == slow.chance.cache_info().currsize


def test_layers_hold_positions_of_their_sum_and_begin_with_empty_cells() -> None:
    layers = solve(Endgame(BLOCK, goal=4, single_from=4))
    assert layers[0].positions.tolist() == [int(CHECKERED & BLOCK)]
    for layer in layers:
        for position in layer.positions[:50].tolist():
            tiles = unpacked(position)
            free = [tiles[cell] for cell in range(16) if cell not in kept_cells(BLOCK)]
            assert sum(1 << exponent for exponent in free if exponent) == 2 * layer.half_sum


def test_leaving_out_scattered_large_tiles_costs_little() -> None:
    def from_empty_cells(single_from: int) -> tuple[float, int]:
        layers = solve(Endgame(BLOCK, 5, single_from))
        return float(layers[0].chances[0]), sum(len(layer.positions) for layer in layers)

    (all_chance, all_positions), (chance, positions) = from_empty_cells(5), from_empty_cells(4)
    assert all_chance - 1e-4 < chance <= all_chance
    assert positions < all_positions
