"""Solves an endgame: computes for every position the chance that best play reaches a goal before it fails.

A position is a board after a spawn. Play fails when every move shifts a kept tile or breaks a limit of the
free tiles:

    chance(b) = max over moves m of b: 1 if m(b) is a goal, else mean over spawns s of chance(s(m(b)))

`solve` finds the reachable positions layer by layer, from the smallest sum of the free tiles to the largest.
It then solves them from the largest sum to the smallest, with the chances of three layers in memory. The
definition comes from macroxue's player, https://github.com/macroxue/2048-ai.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import slide
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO

from octofold_players.compiled.threads import numba_threads, spread_parts
from octofold_players.endgame.formation import Formation, Shape, is_goal, shape
from octofold_players.endgame.layers import Layers, first_positions, index_of, layers_of, upper_and_lower

BYTES_A_POSITION = 0.55
"""Bytes of memory that `solve` takes per position, if there are many positions."""
_U = np.uint64
_CERTAIN = 0x3FFE
"""Denominator of the stored chances, which are rounded down. So a chance below 1 falls a little with every
move, and of two nearly certain paths the shorter one has the larger chance. Tables without this rounding are
weaker (training/EXPERIMENTS.md)."""
_UPPERS_PER_UNIT = 8
"""How many values of the upper number (defined in `layers`) a unit of work has; a multiple of 8, so that no
two threads write to the same byte."""
_UNKNOWN = np.float32(-1)
_SHARE_OF_FINDING = 0.4
"""Share of the time of `solve` in which it finds the reachable positions."""


class Solved(NamedTuple):
    """The moves of a solved endgame. `formation.index` numbers the positions."""

    kept: NDArray[np.uint64]
    """One bit for each position, 64 in a word, lowest bit first: whether `moves` has its best move."""
    moves: NDArray[np.uint8]
    """Two bits for each position, lowest bits of a byte first: the best move of a position in `kept`."""


def solve(formation: Formation, largest: int, report: Callable[[float], None] = lambda _: None) -> Solved:
    """Return the best moves of all positions that can be reached from empty free cells.

    Args:
        formation: the formation to solve.
        largest: exponent of the next tile to make.
        report: called after every layer with the finished share of the work.

    Raises:
        MemoryError: there is too little memory, which is usually found before the computation begins.
    """
    of_shape = shape(formation, largest)
    layers = layers_of(of_shape)
    words = -(-of_shape.positions // 64)
    # Allocate the result first, so that missing memory is noticed at once.
    solved = Solved(np.zeros(words, _U), np.zeros(16 * words, np.uint8))
    reached = _find_layers(of_shape, layers, lambda done: report(_SHARE_OF_FINDING * done))
    _solve_layers(
        of_shape,
        formation.min_chance,
        layers,
        reached,
        solved,
        lambda done: report(_SHARE_OF_FINDING + (1 - _SHARE_OF_FINDING) * done),
    )
    return solved


def _find_layers(shape: Shape, layers: Layers, report: Callable[[float], None]) -> list[NDArray[np.uint8]]:
    """Return the reachable positions of each layer, as one bit per position."""
    sizes = layers.sizes()
    done = np.cumsum(sizes) / sizes.sum()
    starts = [layers.starts(layer) for layer in range(3)]
    seen = [np.zeros(each[-1], np.bool_) for each in starts]
    for layer, upper, lower in first_positions(shape, layers):
        seen[layer][index_of(upper, lower, starts[layer], layers)] = True
    reached = []
    for layer in range(len(sizes)):
        if seen[0].any():
            afterstates = np.zeros_like(seen[0])
            work = partial(_find_following, layer, shape, layers, tuple(starts), tuple(seen), afterstates)
            spread_parts(work, len(layers.upper_sums), numba_threads())
        reached.append(np.packbits(seen[0], bitorder="little"))
        starts = [*starts[1:], layers.starts(layer + 3)]
        seen = [*seen[1:], np.zeros(starts[-1][-1], np.bool_)]
        report(float(done[layer]))
    return reached


def _solve_layers(
    shape: Shape,
    min_chance: float,
    layers: Layers,
    reached: list[NDArray[np.uint8]],
    solved: Solved,
    report: Callable[[float], None],
) -> None:
    """Solve the reachable positions from the last layer to the first. Empties `reached` to save memory."""
    done, all_work = 0, sum(each.size for each in reached)
    starts = [layers.starts(len(reached) + after) for after in range(2)]
    chances = [np.zeros(each[-1], np.uint16) for each in starts]
    kept = solved.kept.view(np.uint8)
    while reached:
        reached_here, layer = reached.pop(), len(reached)
        starts = [layers.starts(layer), *starts[:2]]
        chances = [np.zeros(starts[0][-1], np.uint16), *chances[:2]]
        if reached_here.any():
            of_afterstates = np.full(len(chances[0]), _UNKNOWN)
            work = partial(
                _solve_layer,
                layer,
                shape,
                min_chance,
                layers,
                tuple(starts),
                tuple(chances),
                of_afterstates,
                reached_here,
                kept,
                solved.moves,
            )
            spread_parts(work, -(-len(layers.upper_sums) // _UPPERS_PER_UNIT), numba_threads())
        done += reached_here.size
        report(done / all_work)


@njit(cache=True, nogil=True)
def _lower_range(upper, layer, layers):
    """Return the range of `Layers.lower_order` that lists the lower numbers of an upper number in a layer."""
    lower_sum = layer - layers.upper_sums[upper]
    if lower_sum < 0 or lower_sum + 1 >= len(layers.lower_starts):
        return 0, 0
    return layers.lower_starts[lower_sum], layers.lower_starts[lower_sum + 1]


@njit(cache=True, nogil=True)
def _find_following(layer, shape, layers, starts, seen, afterstates, first, last):
    """Mark all positions that can follow the positions of a layer with upper numbers `first` to `last` - 1.

    `starts` and `seen` have arrays for the layer and the next two layers. `afterstates` marks the
    afterstates whose followers are already marked.
    """
    for upper in range(first, last):
        begin, end = _lower_range(upper, layer, layers)
        for at in range(begin, end):
            if not seen[0][starts[0][upper] + at - begin]:
                continue
            board = layers.kept_tiles | layers.upper_boards[upper] | layers.lower_boards[at]
            for move in range(4):
                afterstate, _ = slide(board, move)
                after_upper, after_lower = upper_and_lower(afterstate, layers)
                if after_upper < 0 or afterstates[index_of(after_upper, after_lower, starts[0], layers)]:
                    continue
                if afterstate == board or is_goal(afterstate, shape.largest, shape):
                    continue
                afterstates[index_of(after_upper, after_lower, starts[0], layers)] = True
                for cell in range(16):
                    if not afterstate >> _U(4 * cell) & _U(0xF):
                        up, low = layers.upper_strides[cell], layers.lower_strides[cell]
                        seen[1][index_of(after_upper + up, after_lower + low, starts[1], layers)] = True
                        seen[2][index_of(after_upper + 2 * up, after_lower + 2 * low, starts[2], layers)] = (
                            True
                        )


@njit(cache=True, nogil=True)
def _solve_layer(
    layer, shape, min_chance, layers, starts, chances, of_afterstates, reached, kept, moves, first, last
):
    """Solve the positions of a layer in the units of work `first` to `last` - 1.

    `starts` and `chances` have arrays for the layer and the next two layers. `of_afterstates` holds the
    chances of the layer's afterstates, as far as they are known.
    """
    lowers = len(layers.lower_ranks)
    for upper in range(first * _UPPERS_PER_UNIT, min(last * _UPPERS_PER_UNIT, len(layers.upper_sums))):
        begin, end = _lower_range(upper, layer, layers)
        for at in range(begin, end):
            place = starts[0][upper] + at - begin
            if not reached[place >> 3] >> (place & 7) & 1:
                continue
            board = layers.kept_tiles | layers.upper_boards[upper] | layers.lower_boards[at]
            best, best_move = np.float32(0), 0
            for move in range(4):
                afterstate, _ = slide(board, move)
                after_upper, after_lower = upper_and_lower(afterstate, layers)
                if afterstate == board or after_upper < 0:
                    continue
                there = index_of(after_upper, after_lower, starts[0], layers)
                chance = of_afterstates[there]
                if chance == _UNKNOWN:
                    chance = _chance(afterstate, after_upper, after_lower, shape, layers, starts, chances)
                    of_afterstates[there] = chance
                if chance > best:
                    best, best_move = chance, move
            rounded = np.int64(best)
            chances[0][place] = rounded
            if rounded and rounded >= min_chance * _CERTAIN:
                number = upper * lowers + layers.lower_order[at]
                kept[number >> 3] |= 1 << (number & 7)
                moves[number >> 2] |= best_move << 2 * (number & 3)


@njit(cache=True, nogil=True)
def _chance(afterstate, upper, lower, shape, layers, starts, chances):
    """Return the chance of reaching a goal from an afterstate, multiplied by `_CERTAIN`."""
    if is_goal(afterstate, shape.largest, shape):
        return np.float32(_CERTAIN)
    of_twos, of_fours, empty = 0, 0, 0
    for cell in range(16):
        if not afterstate >> _U(4 * cell) & _U(0xF):
            empty += 1
            up, low = layers.upper_strides[cell], layers.lower_strides[cell]
            of_twos += chances[1][index_of(upper + up, lower + low, starts[1], layers)]
            of_fours += chances[2][index_of(upper + 2 * up, lower + 2 * low, starts[2], layers)]
    return np.float32((CHANCE_OF_TWO * of_twos + CHANCE_OF_FOUR * of_fours) / empty)
