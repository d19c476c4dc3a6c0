"""N-tuple networks: the value of an afterstate as a sum of table entries.

A tuple is a list of cells. Their exponents, read as one number in base 16, are an index into its table. Every
tuple is read from the eight symmetric boards, so one table learns from all of them. The shapes come from
Szubert and Jaskowski, "Temporal Difference Learning of N-Tuple Networks for the Game 2048" (CIG 2014).
Late boards can have their own tables, as Wu and others propose in "Multi-Stage Temporal Difference Learning
for 2048" (TAAI 2014). `octofold_training.learners.ntuple_td` trains the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray
from octofold_game.bitboards import OUTGROWN, POINTS, has_tile, slide, symmetric_boards
from octofold_game.commands.suggestions import missing
from octofold_game.compiling import njit
from octofold_game.contract.searches import FileSource
from octofold_game.system.files import atomic_write

from octofold_players.compiled.instructions import gather_bits, prefetch
from octofold_players.compiled.table_files import BAD_JSON, TableFileError, array_in, mapped, save_array
from octofold_players.compiled.threads import part_count
from octofold_players.ntuple.compact_tables import NETWORK_FILE, PAGE, CompactTables, is_compact
from octofold_players.ntuple.tdl2048 import read_weights
from octofold_players.ntuple.tuples import check_stages, check_tuples

FOUR_SIX_TUPLES = (
    (0, 1, 2, 3, 4, 5),
    (4, 5, 6, 7, 8, 9),
    (0, 1, 2, 4, 5, 6),
    (4, 5, 6, 8, 9, 10),
)
_U = np.uint64
_FORMAT = 1
_DESCRIPTION, _VALUES = NETWORK_FILE, "values.npy"
_LARGEST_DESCRIPTION = 1 << 20
_ROWS = 1 << 22
"""Number of values to check at a time, because the result of a check takes memory."""


class TupleLayout(NamedTuple):
    """The layout of a network's tables. Compiled code needs only this layout and the values.

    A run is a sequence of neighboring cells of a tuple that are also neighbors on the board, so their nibbles
    can be shifted together. The index of a tuple is the OR of `board >> shift & mask` over its runs. Six
    cells in two runs take two steps instead of six.
    """

    shifts: NDArray[np.uint64]
    """[T, R]: the shift of each run of each tuple."""
    masks: NDArray[np.uint64]
    """[T, R]: the mask of each run of each tuple."""
    stages: NDArray[np.uint64]
    """[S - 1]: `NTupleNetwork.stages`."""
    pages: NDArray[np.uint32]
    """`NTupleNetwork.pages`."""


@dataclass(frozen=True)
class NTupleNetwork:
    """An n-tuple network with tables `values` `[S * T * 16**L] float32`: S stages, T tuples of L cells.

    `stages` are the exponents of S - 1 tiles, in descending order. A board is in stage 0 until it holds the
    first of these tiles or a larger one. It is then in stage 1 if it lacks the second tile, in stage 2 if it
    holds the second and lacks the third tile, and so on.
    """

    FILES: ClassVar[tuple[str, ...]] = (_DESCRIPTION, _VALUES)
    """The names of the files of a network in a folder."""

    tuples: tuple[tuple[int, ...], ...]
    values: NDArray[np.float32]
    stages: tuple[int, ...] = ()
    pages: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    """`[entries / PAGE]`: for each page of entries, its index in `values`; empty if `values` has all entries
    in order. Without its pages of zeros, a compact network takes a fifth of the memory."""

    @staticmethod
    def size(tuples: tuple[tuple[int, ...], ...]) -> int:
        """Return the number of table entries of one stage."""
        return len(tuples) << 4 * len(tuples[0])

    @cached_property
    def layout(self) -> TupleLayout:
        """The layout of the tables for compiled code."""
        per_tuple = [_runs(cells) for cells in self.tuples]
        longest = max(map(len, per_tuple))
        padded = np.array([runs + [(0, 0)] * (longest - len(runs)) for runs in per_tuple], np.uint64)
        shifts, masks = (np.ascontiguousarray(padded[:, :, part]) for part in (0, 1))
        return TupleLayout(shifts, masks, np.array(self.stages, np.uint64), self.pages)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the tables, which the card of a published network gives as the checkpoint's digest."""
        digest = hashlib.sha256()
        for part in self.parts():
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def action_values(self, boards: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the values `[N, 4]` of the moves on packed boards `[N]`.

        The value of a move is its reward plus the value of the afterstate; `-inf` for an illegal move. A move
        that makes a tile too large for a 64-bit board is worth its reward and ends the game.
        """
        values = np.empty((len(boards), 4), np.float32)
        action_values(boards, self.values, self.layout, values, part_count())
        return values

    def save(self, folder: Path) -> None:
        """Write the tables and their description into `folder`.

        Both files are written completely before they replace older files. Only a kill between the two
        replacements leaves files of two networks.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / _DESCRIPTION) as described:
            described.write_text(self._description(), encoding="utf-8")
            save_array(folder / _VALUES, self.values)

    def _description(self) -> str:
        assert not len(self.pages), "only a network without pages can be saved"
        return json.dumps({"format": _FORMAT, "tuples": self.tuples, "stages": self.stages}) + "\n"

    @classmethod
    def load(cls, folder: Path, *, paged: bool = False) -> NTupleNetwork:
        """Read a network that `save` wrote, a published model, or a weight file of TDL2048.

        With `paged`, compact tables stay in pages, which only compiled code can read. Raises
        `TableFileError`, which names the file and what is wrong with it.
        """
        if folder.is_file():
            tuples, values = read_weights(folder)
            _check_values(values, values.shape, folder)
            return cls(tuples, values)
        file = folder / _DESCRIPTION
        if is_compact(folder):
            return cls._from_tables(CompactTables.load(folder), paged=paged)
        try:
            tuples, stages, size = _read_description(file.read_bytes(), file)
        except FileNotFoundError as error:
            raise TableFileError(_explain_missing(folder, file.name)) from error
        except OSError as error:
            raise TableFileError(f"{file}: {error.strerror}") from error
        return cls(tuples, np.array(mapped_array(folder / _VALUES, (size,))), stages)

    @classmethod
    def read(cls, files: Mapping[str, NDArray[np.uint8]]) -> NTupleNetwork:
        """Read a network from the bytes of its files, which are `FILES` or `CompactTables.FILES`.

        Bytes of `FILES` are not copied. Compact tables stay in pages, which only compiled code can read.
        Raises `TableFileError`, which names a missing file, or a file and what is wrong with it.
        """
        if all(name in files for name in CompactTables.FILES):
            return cls._from_tables(CompactTables.read(files), paged=True)
        for name in cls.FILES:
            if name not in files:
                raise TableFileError(f"{name} is missing")
        tuples, stages, size = _read_description(
            files[_DESCRIPTION][:_LARGEST_DESCRIPTION].tobytes(), _DESCRIPTION
        )
        values = array_in(files[_VALUES], _VALUES)
        _check_values(values, (size,), _VALUES)
        return cls(tuples, values, stages)

    @classmethod
    def _from_tables(cls, tables: CompactTables, *, paged: bool) -> NTupleNetwork:
        if not paged:
            return cls(tables.tuples, tables.values(), tables.stages)
        places, pages = tables.pages()
        return cls(tables.tuples, pages, tables.stages, places)

    def parts(self) -> Iterator[NDArray[np.float32]]:
        """Yield the values of all entries in order, some millions at a time."""
        if not len(self.pages):
            yield self.values
        for start in range(0, len(self.pages), _ROWS // PAGE):
            yield self.values.reshape(-1, PAGE)[self.pages[start : start + _ROWS // PAGE]]

    def files(self) -> dict[str, FileSource]:
        """Return the content of each of `FILES`."""
        return {_DESCRIPTION: self._description().encode(), _VALUES: self.values}


def _explain_missing(folder: Path, file: str) -> str:
    """Explain why a folder contains no network.

    If it is the folder of a published model, suggest its newest version.
    """
    if not folder.exists():
        return missing(folder)
    versions = [int(each.name) for each in folder.iterdir() if each.name.isdecimal() and is_compact(each)]
    newest = f"; did you mean {folder / str(max(versions))}?" if versions else ""
    return f"{folder} is not an n-tuple network: {file} is missing{newest}"


def _read_description(
    content: bytes, file: object
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...], int]:
    """Read a network's description and return its tuples, its stages and the number of its values."""
    try:
        description = json.loads(content)
        if description["format"] != _FORMAT:
            raise ValueError(f"format must be {_FORMAT}, got {description['format']}")
        tuples = tuple(tuple(cells) for cells in description["tuples"])
        stages = tuple(description.get("stages", ()))
        check_tuples(tuples)
        check_stages(stages)
    except BAD_JSON as error:
        raise TableFileError(f"{file}: not the description of an n-tuple network ({error})") from error
    return tuples, stages, NTupleNetwork.size(tuples) * (len(stages) + 1)


def mapped_array(file: Path, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Map the array of a file. Raises `TableFileError` unless it is finite `float32` of this shape."""
    array = array_in(mapped(file), file)
    _check_values(array, shape, file)
    return array


def _check_values(array: NDArray[Any], shape: tuple[int, ...], file: object) -> None:
    if array.shape != shape or array.dtype != np.float32:
        found = f"{array.dtype} of shape {list(array.shape)}"
        raise TableFileError(f"{file}: must be float32 of shape {list(shape)}, got {found}")
    if not all(np.isfinite(array[start : start + _ROWS]).all() for start in range(0, len(array), _ROWS)):
        raise TableFileError(f"{file}: contains values that are not finite numbers")


def _runs(cells: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place, cell in enumerate(cells):
        shift = 4 * (cell - place)
        if shift < 0:
            raise ValueError(f"tuple {cells}: cells must be in ascending order")
        if runs and runs[-1][0] == shift:
            runs[-1] = (shift, runs[-1][1] | 0xF << 4 * place)
        else:
            runs.append((shift, 0xF << 4 * place))
    return runs


@njit(cache=True, nogil=True)
def stage_of(board, stages):
    """Return the stage of a board, from 0, as `NTupleNetwork` defines it."""
    if len(stages) == 0:
        return 0
    late = False
    for exponent in range(stages[0], 16):
        late |= has_tile(board, exponent)
    if not late:
        return 0
    stage = 1
    while stage < len(stages) and has_tile(board, stages[stage]):
        stage += 1
    return stage


@njit(cache=True, nogil=True)
def find_entries(board, values, layout, indices):
    """Fill `indices` `[T * 8] uint64` with the entries whose sum is the board's value, and prefetch them."""
    tables = layout.shifts.shape[0]
    entries = len(layout.pages) * PAGE if len(layout.pages) else len(values)
    size = _U(entries // (tables * (len(layout.stages) + 1)))
    start = _U(stage_of(board, layout.stages) * tables) * size
    views = symmetric_boards(board)
    for table in range(tables):
        gather_bits(indices, 8 * table, start, views, layout.shifts, layout.masks, table)
        start += size
    if len(layout.pages):
        for place in range(len(indices)):
            page, cell = indices[place] // _U(PAGE), indices[place] % _U(PAGE)
            indices[place] = _U(layout.pages[page]) * _U(PAGE) + cell
    for entry in indices:
        prefetch(values, entry)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def sum_of_entries(values, indices):
    """Return the sum of the entries of `values` at `indices`."""
    value = np.float32(0)
    for entry in indices:
        value += values[entry]
    return value


@njit(cache=True, nogil=True)
def find_afterstate_entries(board, values, layout, indices):
    """Fill a row of `indices` `[4, T * 8] uint64` for each legal move: the entries of its afterstate."""
    for move in range(4):
        afterstate, _ = slide(board, move)
        if afterstate != board:
            find_entries(afterstate, values, layout, indices[move])


@njit(cache=True, nogil=True)
def move_value(board, move, values, indices):
    """Return the value of a move (reward plus value of the afterstate), its afterstate and its reward.

    The value of an illegal move is `-inf`. A move that makes a tile too large for the board is worth its
    reward. `find_afterstate_entries` must have filled `indices`.
    """
    afterstate, reward = slide(board, move)
    if reward >= OUTGROWN:
        value = np.float32(reward & POINTS)
    elif afterstate != board:
        value = reward + sum_of_entries(values, indices[move])
    else:
        value = np.float32(-np.inf)
    return value, afterstate, reward


@njit(cache=True, nogil=True)
def best_move(board, values, layout, indices):
    """Return the move with the largest `move_value`, its afterstate and its reward.

    The move is -1 if none is legal. `indices` `[4, T * 8] uint64` is a work buffer.
    """
    find_afterstate_entries(board, values, layout, indices)
    best = -1
    best_value = np.float32(-np.inf)
    best_afterstate = board
    best_reward = 0
    for move in range(4):
        value, afterstate, reward = move_value(board, move, values, indices)
        if value > best_value:
            best, best_value, best_afterstate, best_reward = move, value, afterstate, reward
    return best, best_afterstate, best_reward


@njit(cache=True, parallel=True, nogil=True)
def action_values(boards, values, layout, result, chunks):
    """Fill `result` `[N, 4] float32` with move values of packed boards, in `chunks` parallel parts."""
    for chunk in prange(chunks):
        indices = np.empty((4, 8 * len(layout.shifts)), np.uint64)
        for n in range(chunk * len(boards) // chunks, (chunk + 1) * len(boards) // chunks):
            find_afterstate_entries(boards[n], values, layout, indices)
            for move in range(4):
                result[n, move] = move_value(boards[n], move, values, indices)[0]
