"""The rules of 2048 on 64-bit boards, compiled with numba: the fast form for local players and trainers.

Cell `i` (row-major from the top left) is the nibble at bits `4 * i`, so an exponent is at most
`LARGEST_EXPONENT` = 15 (tile 32768). The rules merge two 32768s, but a nibble cannot hold the 65536. A slide
that merges them has a reward of at least `OUTGROWN`, and the caller ends the game. The base install has no
numba, so neither the client nor the server imports this module.
"""

import numpy as np
from numpy.typing import NDArray

from octofold_game.compiling import njit
from octofold_game.rules import MOVE_NAMES, BoardError, afterstates, flat
from octofold_game.spawns import FOUR_BELOW

LARGEST_EXPONENT = 15
OUTGROWN = 1 << 24
"""Flag in the reward of a slide that merges two 32768s. A slide earns fewer points: at most 8 * 65,536."""
POINTS = OUTGROWN - 1
"""Mask of the points in a reward: `reward & POINTS` is the reward without the flag `OUTGROWN`."""


def _row_tables() -> tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.int32]]:
    """Return three tables of all 65,536 rows: the row slid left, the row slid right, and the reward.

    The reward has the flag `OUTGROWN` if two 32768s merge. A search spends most of its time on lookups in
    these tables. Rows of 16 bits keep them small enough for the processor's cache.
    """
    shifts = np.arange(0, 16, 4, dtype=np.uint32)
    boards = np.zeros((1 << 16, 16), np.uint8)
    boards[:, :4] = np.arange(1 << 16, dtype=np.uint32)[:, None] >> shifts & 0xF
    slid, rewards, _ = afterstates(boards)
    left, right = MOVE_NAMES.index("left"), MOVE_NAMES.index("right")
    outgrown = (slid[:, left] > LARGEST_EXPONENT).any(axis=1)
    cells = np.minimum(slid[..., :4], LARGEST_EXPONENT).astype(np.uint32)
    rows = (cells << shifts).sum(axis=2, dtype=np.uint16)
    return rows[:, left].copy(), rows[:, right].copy(), rewards[:, left] | outgrown * np.int32(OUTGROWN)


LEFT, RIGHT, REWARD = _row_tables()
_U = np.uint64
_ROW = _U(0xFFFF)
EVERY_CELL = _U(0x1111111111111111)
"""A board with 1 in every cell: the lowest bit of each nibble."""


@njit(cache=True, nogil=True)
def transpose(board):
    """Swap rows and columns: cell (r, c) goes to (c, r)."""
    a = (
        board & _U(0xF0F00F0FF0F00F0F)
        | (board & _U(0x0000F0F00000F0F0)) << _U(12)
        | (board & _U(0x0F0F00000F0F0000)) >> _U(12)
    )
    return (
        a & _U(0xFF00FF0000FF00FF)
        | (a & _U(0x00FF00FF00000000)) >> _U(24)
        | (a & _U(0x00000000FF00FF00)) << _U(24)
    )


@njit(cache=True, nogil=True)
def mirror(board):
    """Swap left and right: cell (r, c) goes to (r, 3 - c)."""
    return (
        (board & _U(0x000F000F000F000F)) << _U(12)
        | (board & _U(0x00F000F000F000F0)) << _U(4)
        | (board & _U(0x0F000F000F000F00)) >> _U(4)
        | (board & _U(0xF000F000F000F000)) >> _U(12)
    )


@njit(cache=True, nogil=True)
def symmetric_boards(board):
    """Return the eight boards that rotations and reflections make from a board, the board itself first."""
    flipped = mirror(board)
    turned = transpose(board)
    turned_flipped = transpose(flipped)
    a, b = mirror(turned), mirror(turned_flipped)
    return board, flipped, turned, turned_flipped, a, b, transpose(a), transpose(b)


@njit(cache=True, nogil=True)
def _slide_rows(board, table):
    reward = 0
    result = _U(0)
    for r in range(4):
        shift = _U(16 * r)
        row = board >> shift & _ROW
        reward += REWARD[row]
        result |= _U(table[row]) << shift
    return result, reward


@njit(cache=True, nogil=True)
def slide(board, move):
    """Return the afterstate and the reward of one move (0 up, 1 right, 2 down, 3 left).

    The move is legal if the afterstate differs from the board.
    """
    if move == 3:
        return _slide_rows(board, LEFT)
    if move == 1:
        return _slide_rows(board, RIGHT)
    result, reward = _slide_rows(transpose(board), LEFT if move == 0 else RIGHT)
    return transpose(result), reward


@njit(cache=True, nogil=True)
def next_random(state):
    """Return 64 random bits and advance the generator with the state `state` `[1] uint64`.

    The generator is splitmix64 (Steele, Lea and Flood 2014).
    """
    state[0] += _U(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ z >> _U(30)) * _U(0xBF58476D1CE4E5B9)
    z = (z ^ z >> _U(27)) * _U(0x94D049BB133111EB)
    return z ^ z >> _U(31)


@njit(cache=True, nogil=True)
def empty_cells(board):
    """Return a word with 1 in the nibble of each empty cell and 0 in the others."""
    filled = board | board >> _U(1)
    return ~(filled | filled >> _U(2)) & EVERY_CELL


@njit(cache=True, nogil=True)
def has_tile(board, exponent):
    """Return whether a cell of the board has this exponent."""
    return empty_cells(board ^ EVERY_CELL * _U(exponent)) != _U(0)


@njit(cache=True, nogil=True)
def count_empty(board):
    """Return the number of empty cells, 0 to 16."""
    empty = empty_cells(board)
    # Add pairs of nibbles as bytes, because a nibble overflows at 16. The multiplication then adds the bytes.
    empty = (empty & _U(0x0F0F0F0F0F0F0F0F)) + (empty >> _U(4) & _U(0x0F0F0F0F0F0F0F0F))
    return np.int64(empty * _U(0x0101010101010101) >> _U(56))


@njit(cache=True, nogil=True)
def spawn(board, state):
    """Return the board with a new tile in a random empty cell: a 4 with `CHANCE_OF_FOUR`, else a 2."""
    bits = next_random(state)
    skip = np.int64((bits >> _U(32)) * _U(count_empty(board)) >> _U(32))
    exponent = _U(2) if (bits & _U(0xFFFFFFFF)) < _U(FOUR_BELOW) else _U(1)
    empty = empty_cells(board)
    for _ in range(skip):
        empty &= empty - _U(1)
    return board | exponent * (empty & (~empty + _U(1)))


@njit(cache=True, nogil=True)
def new_game(state):
    """Return a starting board: an empty board with two spawned tiles."""
    return spawn(spawn(_U(0), state), state)


def pack(boards: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Convert `[N, 16]` or `[N, 4, 4] uint8` exponents to 64-bit boards, `[N] uint64`.

    Raises:
        BoardError: an exponent is above 15; the error names the first such board and cell.
    """
    boards = flat(boards)
    too_large = np.argwhere(boards > LARGEST_EXPONENT)
    if len(too_large):
        index, cell = too_large[0]
        raise BoardError(
            f"board {index}, cell {cell}: exponent {boards[index, cell]} does not fit a 64-bit board, "
            f"which holds 0 to {LARGEST_EXPONENT}",
            int(index),
            int(cell),
        )
    shifts = np.arange(0, 64, 4, dtype=np.uint64)
    packed: NDArray[np.uint64] = np.bitwise_or.reduce(boards.astype(np.uint64) << shifts, axis=1)
    return packed


def unpack(boards: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Convert 64-bit boards `[N] uint64` to exponents, `[N, 16] uint8`."""
    shifts = np.arange(0, 64, 4, dtype=np.uint64)
    return (boards[:, None] >> shifts & np.uint64(0xF)).astype(np.uint8)
