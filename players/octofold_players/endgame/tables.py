"""Endgame tables on disk, and the moves that they know.

A folder holds one table for each formation and goal, such as `kept-012456-goal-8` with the kept cells as
hexadecimal digits. The files of a table are read through memory maps, so that several processes
share them and only what is used takes memory. Positions are sorted within a layer; equal upper parts of
their keys are stored once:

    table.json        format, kept cells, goal, number of positions
    layers.npy        [L + 1] int64     where the upper parts of each layer begin
    uppers.npy        [U] uint32        upper 32 bits of the keys of 48 bits, rising within a layer
    positions.npy     [U + 1] uint32    where the positions with each upper part begin
    lowers.npy        [N] uint16        lower 16 bits of the keys, rising for each upper part
    chances.npy       [N] uint16        chance of the goal, 65,535 is 1
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from octofold_game.bitboards import slide
from octofold_game.files import write_text

from octofold_players.endgame.formation import (
    CHECKERED,
    formation,
    half_sum,
    holds,
    kept_cells,
    key,
    largest_free,
    smallest_kept,
)
from octofold_players.endgame.solver import Endgame, Layer
from octofold_players.ntuple import NTupleFileError, symmetric_boards

_FORMAT = 1
_CERTAIN = 65_535
_ARRAYS = {
    "layers": np.int64,
    "uppers": np.uint32,
    "positions": np.uint32,
    "lowers": np.uint16,
    "chances": np.uint16,
}
_U = np.uint64


class EndgameTable(NamedTuple):
    """The positions of one formation and goal, see the module."""

    kept: np.uint64
    goal: int
    layers: NDArray[np.int64]
    uppers: NDArray[np.uint32]
    positions: NDArray[np.uint32]
    lowers: NDArray[np.uint16]
    chances: NDArray[np.uint16]


class EndgameMoves(NamedTuple):
    """What tables say about boards."""

    moves: NDArray[np.int8]
    "[N]: the move of the largest chance; -1 where no table knows the board"
    chances: NDArray[np.float32]
    "[N]: that chance, 0 where no table knows the board"


def save_table(folder: Path, endgame: Endgame, layers: Iterable[Layer], least_chance: float) -> int:
    """Write the table of one goal into `folder`, without the positions below `least_chance`.

    An interrupted call leaves no table.

    Returns:
        the number of positions written
    """
    final = table_folder(folder, endgame)
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        count = _write(partial, endgame, layers, least_chance)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return count


def table_folder(folder: Path, endgame: Endgame) -> Path:
    """Where in a folder of tables that of an endgame is."""
    cells = "".join(f"{cell:x}" for cell in kept_cells(endgame.kept))
    return folder / f"kept-{cells}-goal-{endgame.goal}"


def _write(folder: Path, endgame: Endgame, layers: Iterable[Layer], least_chance: float) -> int:
    firsts, uppers, positions = [0], [], [np.zeros(1, np.uint32)]
    lowers, chances = [], []
    count = 0
    for layer in layers:
        likely = layer.chances >= least_chance
        keys = _keys(layer.positions[likely], endgame.kept)
        order = np.argsort(keys)
        keys = keys[order]
        upper, first = np.unique((keys >> _U(16)).astype(np.uint32), return_index=True)
        uppers.append(upper)
        positions.append(np.append(first[1:], len(keys))[: len(upper)].astype(np.uint32) + np.uint32(count))
        lowers.append((keys & _U(0xFFFF)).astype(np.uint16))
        chances.append(np.rint(layer.chances[likely][order] * _CERTAIN).astype(np.uint16))
        firsts.append(firsts[-1] + len(upper))
        count += len(keys)
    arrays = {
        "layers": np.array(firsts, np.int64),
        "uppers": np.concatenate(uppers),
        "positions": np.concatenate(positions),
        "lowers": np.concatenate(lowers),
        "chances": np.concatenate(chances),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    description = {
        "format": _FORMAT,
        "kept": kept_cells(endgame.kept),
        "goal": endgame.goal,
        "positions": count,
    }
    write_text(folder / "table.json", json.dumps(description) + "\n")
    return count


def load_tables(folder: Path) -> tuple[EndgameTable, ...]:
    """The tables of a folder by falling goal, mapped into memory.

    Raises:
        NTupleFileError: there are none, or one is damaged; the error names the file.
    """
    found = [_load(file.parent) for file in sorted(folder.glob("*/table.json"))]
    if not found:
        raise NTupleFileError(f"{folder}: no endgame tables; make them with octofold-train endgame")
    return tuple(sorted(found, key=lambda table: -table.goal))


def _load(folder: Path) -> EndgameTable:
    file = folder / "table.json"
    try:
        description = json.loads(file.read_text())
        if description["format"] != _FORMAT:
            raise ValueError(f"format {description['format']}, this version reads {_FORMAT}")
        goal, count = int(description["goal"]), int(description["positions"])
        kept = formation(description["kept"])
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
        }
    except OSError as error:
        raise NTupleFileError(f"{error.filename or folder}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NTupleFileError(f"{file}: not an endgame table ({error})") from error
    for name, kind in _ARRAYS.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise NTupleFileError(f"{folder / name}.npy: not a list of {np.dtype(kind).name}")
    whole = (
        len(arrays["lowers"]) == len(arrays["chances"]) == count
        and len(arrays["positions"]) == len(arrays["uppers"]) + 1
        and int(arrays["layers"][-1]) == len(arrays["uppers"])
        and int(arrays["positions"][-1]) == count
    )
    if not whole:
        raise NTupleFileError(f"{folder}: damaged (its files do not fit together)")
    return EndgameTable(kept, goal, **{name: np.asarray(array) for name, array in arrays.items()})


def endgame_moves(
    boards: NDArray[np.uint64], tables: tuple[EndgameTable, ...], sure: float = 0.0
) -> EndgameMoves:
    """The moves that the tables know for 64-bit boards `[N]`.

    The table of the largest goal decides among those whose formation a board has and whose chance is more
    than `sure`.
    """
    found = EndgameMoves(np.full(len(boards), -1, np.int8), np.zeros(len(boards), np.float32))
    _find_moves(boards, tables, np.float32(sure), found.moves, found.chances)
    return found


@njit(cache=True, nogil=True)
def _keys(positions, kept):
    keys = np.empty(len(positions), np.uint64)
    for n in range(len(positions)):
        keys[n] = key(positions[n], kept)
    return keys


@njit(cache=True, nogil=True)
def chance(position, table):
    """The chance of a position (see `solver`), 0 if the table lacks it."""
    layer = half_sum(position, table.kept)
    if layer + 1 >= len(table.layers):
        return np.float32(0)
    whole = key(position, table.kept)
    upper = np.uint32(whole >> _U(16))
    found = _find(table.uppers, table.layers[layer], table.layers[layer + 1], upper)
    if found < 0:
        return np.float32(0)
    first, last = np.int64(table.positions[found]), np.int64(table.positions[found + 1])
    place = _find(table.lowers, first, last, np.uint16(whole & _U(0xFFFF)))
    return np.float32(table.chances[place]) / np.float32(_CERTAIN) if place >= 0 else np.float32(0)


@njit(cache=True, nogil=True)
def _find(numbers, first, end, wanted):
    """The place of `wanted` among rising numbers from `first` to `end`, -1 if it is not there."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and numbers[low] == wanted else -1


@njit(cache=True, nogil=True)
def _find_moves(boards, tables, sure, moves, chances):
    symmetric = np.empty(8, np.uint64)
    turned = np.empty(8, np.uint64)
    for n in range(len(boards)):
        symmetric_boards(boards[n], symmetric)
        for table in tables:
            for view in range(8):
                if moves[n] < 0 and _knows(symmetric[view], table):
                    move, likely = _best(boards[n], view, symmetric[view], table, turned)
                    if likely > sure:
                        moves[n], chances[n] = move, likely


@njit(cache=True, nogil=True)
def _knows(board, table):
    """Whether a board has a table's formation, and its smallest kept tile is the table's goal."""
    return smallest_kept(board, table.kept) == table.goal and holds(board, table.kept)


@njit(cache=True, nogil=True)
def _best(board, view, formed, table, turned):
    """The move of `board` with the largest chance, and this chance; -1 and 0 if the table knows none.

    `formed` is its symmetric board `view`, which has the formation; `turned` `[8] uint64` is room to work in.
    """
    best, most = -1, np.float32(0)
    for move in range(4):
        symmetric_boards(slide(board, move)[0], turned)
        worth = _chance_after(formed, turned[view], table)
        if worth > most:
            best, most = move, worth
    return best, most


@njit(cache=True, nogil=True)
def _chance_after(board, afterstate, table):
    """The chance after a move of a board that has the formation."""
    if afterstate == board or (afterstate ^ board) & table.kept:
        return np.float32(0)
    if largest_free(afterstate, table.kept) >= table.goal:
        return np.float32(1)
    return chance(afterstate & ~table.kept | CHECKERED & table.kept, table)
