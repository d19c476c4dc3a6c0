"""Computes an n-tuple network's action values, one or two moves deep, for many boards on one device.

The same functions are compiled for the CPU and, by numba's CUDA target, for an NVIDIA GPU. One move deep, a
thread computes the value of a move. Two moves deep, it computes what one spawn contributes to this value.
`octofold_players.ntuple.search` is the same search for a player on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from octofold_game.bitboards import LARGEST_EXPONENT, LEFT, OUTGROWN, POINTS, REWARD, RIGHT, mirror, transpose
from octofold_game.compiling import njit
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO
from octofold_players.ntuple.network import NTupleNetwork, stage_of
from torch import Tensor

from octofold_training.errors import TrainingError

EXPONENTS = LARGEST_EXPONENT + 1
"""Number of exponents that the tables distinguish. A move that makes a larger tile ends the game."""

_U = np.uint64
_ROW = _U(0xFFFF)
_THREADS = 128
"""Threads per block. With more threads, a GPU would have registers for too few blocks."""
_CELLS, _ROUNDS = 4, 4
"""The 16 cells that may get the next tile are handled in 4 rounds of 4 cells."""


class _Tables(NamedTuple):
    """The arrays on the device that the compiled functions read."""

    values: Any
    """[S * T * 16**L] float32: the entries of all tables, see `NTupleNetwork`."""
    shifts: Any
    """[T, R] int64: `shifts` of `octofold_players.ntuple.network.TupleLayout`."""
    masks: Any
    """[T, R] int64: `masks` of `octofold_players.ntuple.network.TupleLayout`."""
    stages: Any
    """[S - 1] int64: the exponents that begin the stages, see `NTupleNetwork`."""
    left: Any
    """[65536] int16: every row after a slide to the left."""
    right: Any
    """[65536] int16: every row after a slide to the right."""
    rewards: Any
    """[65536] int32: the reward of a slide of every row."""


class TensorTeacher:
    """An n-tuple network whose tables are in a device's memory, where an entry takes 4 bytes."""

    def __init__(self, network: NTupleNetwork, device: torch.device) -> None:
        self.network, self.device = network, device
        layout = network.layout
        integers = (each.astype(np.int64) for each in (layout.shifts, layout.masks, layout.stages))
        rows = (LEFT.view(np.int16), RIGHT.view(np.int16), REWARD)
        tensors = [torch.from_numpy(each).to(device) for each in (network.values, *integers, *rows)]
        self._tables = _Tables(*(_array(each) for each in tensors))
        self._tensors = tensors  # keeps the memory of the tables alive
        self._fill = _filler_of_gpu() if device.type == "cuda" else _fill
        self._bits = torch.arange(0, 64, 4, device=device)

    @property
    def sha256(self) -> str:
        """SHA-256 of the tables."""
        return self.network.sha256

    def action_values(self, boards: Tensor, depth: int = 1) -> Tensor:
        """Return the expected value of each move, `[N, 4] float32`, `-inf` if illegal.

        A move that makes a tile above 32768 is worth its reward and ends the game.

        Args:
            boards: `[N, 16] uint8`, exponents of 0 to 15.
            depth: with 1, a value is reward plus afterstate value. With 2, it is reward plus the mean over
                spawns of the best next move's value.
        """
        packed = (boards.long() << self._bits).sum(dim=1)
        shape = (_ROUNDS, len(boards), 4, 2 * _CELLS) if depth == 2 else (1, len(boards), 4, 1)
        parts = torch.empty(shape, dtype=torch.float64, device=boards.device)
        self._fill(_array(packed), self._tables, _array(parts.view(-1)), depth == 2)
        return parts.sum(dim=(0, 3)).float()


def _array(tensor: Tensor) -> Any:
    if tensor.device.type == "cuda":
        from numba import cuda

        return cuda.as_cuda_array(tensor)
    return tensor.numpy()


@cache
def _filler_of_gpu() -> Callable[..., None]:
    from numba import cuda

    if not cuda.is_available():
        raise TrainingError("numba cannot use the GPU; install numba-cuda: pip install 'numba-cuda[cu13]'")
    vars(numba.config)["CUDA_LOW_OCCUPANCY_WARNINGS"] = 0  # numba would warn of small batches

    @cuda.jit
    def kernel(boards, tables, parts, deep):
        item = cuda.grid(1)  # type: ignore[attr-defined]
        if item < len(parts):
            parts[item] = _thread_result(boards, item, deep, tables)

    def fill(boards: Any, tables: _Tables, parts: Any, deep: bool) -> None:
        blocks = -(-len(parts) // _THREADS)
        # On torch's stream, the kernel runs after the work that torch has queued.
        stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
        kernel[blocks, _THREADS, stream](boards, tables, parts, deep)

    return fill


@njit(cache=True, nogil=True)
def _fill(boards, tables, parts, deep):
    for item in range(len(parts)):
        parts[item] = _thread_result(boards, item, deep, tables)


@njit(cache=True, nogil=True)
def _thread_result(boards, item, deep, tables):
    """Return a thread's result: a move's value or, if `deep`, what a spawn contributes to that value."""
    if not deep:
        return _move_value(_U(boards[item >> 2]), item & 3, tables)
    # Neighboring threads share a board and a move, so they read mostly the same entries. Most boards have few
    # empty cells, so most threads of the later rounds have no work. A warp without work ends at once.
    exponent, number, move = item & 1, item >> 1 & _CELLS - 1, item // (2 * _CELLS) & 3
    earlier, board = divmod(item // (8 * _CELLS), len(boards))
    number += earlier * _CELLS
    return _spawn_value(_U(boards[board]), move, exponent + 1, number, tables)


@njit(cache=True, nogil=True)
def _spawn_value(board, move, exponent, number, tables):
    """Return what a spawn in empty cell `number` contributes to a move's value; 0 if no such cell exists."""
    afterstate, reward = _slide(board, move, tables)
    if reward >= OUTGROWN:
        return np.float64(reward & POINTS) / 32
    if afterstate == board:
        return -np.inf
    empty, place = 0, 0
    for cell in range(16):
        if afterstate >> _U(4 * cell) & _U(0xF) == _U(0):
            if empty == number:
                place = cell
            empty += 1
    if number >= empty:
        return 0.0
    spawned = afterstate | _U(exponent) << _U(4 * place)
    best = 0.0  # the value of a game that is over
    for following in range(4):
        best = max(best, _move_value(spawned, following, tables))
    chance = CHANCE_OF_TWO if exponent == 1 else CHANCE_OF_FOUR
    return (reward + best) * chance / empty


@njit(cache=True, nogil=True)
def _move_value(board, move, tables):
    afterstate, reward = _slide(board, move, tables)
    if reward >= OUTGROWN:
        return np.float64(reward & POINTS)
    if afterstate == board:
        return -np.inf
    return reward + np.float64(_board_value(afterstate, tables))


@njit(cache=True, nogil=True)
def _slide(board, move, tables):
    """Slide a board like `bitboards.slide`, whose tables a GPU cannot read."""
    lines = transpose(board) if move % 2 == 0 else board
    to_first_cell = move == 0 or move == 3
    result, reward = _U(0), np.int64(0)
    for row in range(4):
        line = np.int64(lines >> _U(16 * row) & _ROW)
        slid = tables.left[line] if to_first_cell else tables.right[line]
        result |= (_U(slid) & _ROW) << _U(16 * row)
        reward += np.int64(tables.rewards[line])
    return transpose(result) if move % 2 == 0 else result, reward


@njit(cache=True, nogil=True)
def _board_value(board, tables):
    count = len(tables.shifts)
    stage = stage_of(board, tables.stages)
    size = len(tables.values) // (count * (len(tables.stages) + 1))
    total = np.float32(0)
    view = board
    for number in range(8):
        for table in range(count):
            entry = _U(0)
            for run in range(tables.shifts.shape[1]):
                entry |= view >> _U(tables.shifts[table, run]) & _U(tables.masks[table, run])
            total += tables.values[(stage * count + table) * size + np.int64(entry)]
        # Two reflections in alternation make all eight views.
        view = mirror(view) if number % 2 == 0 else transpose(view)
    return total
