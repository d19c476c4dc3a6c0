"""Endgame tables on disk, and the moves that they know.

A folder holds a table for each formation, such as `five-128` with the next tile that it is made for.
Positions whose chance is 0, or too small to decide, are left out. The files are read through memory maps, so
that several processes share them and only what is used takes memory:

    table.json        format, name of the formation, exponent of the next tile, number of entries
    kept.npy          [W] uint64     bit n of word w: whether the table has an entry for position 64 * w + n
    before.npy        [W] uint32     how many entries come before each word's
    entries.npy       [N] uint16     move and chance, see `solver`
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import dtype_to_descr, write_array_header_1_0
from numpy.typing import NDArray
from octofold_game.bitboards import symmetric_boards
from octofold_game.compiling import njit
from octofold_game.symmetries import MOVES
from octofold_game.system.files import write_text

from octofold_players.compiled.table_files import BAD_JSON, TableFileError, array_in, mapped
from octofold_players.endgame.formation import (
    FORMATIONS,
    LEAST_NEXT,
    MOST_NEXT,
    Formation,
    Shape,
    holds,
    index,
    shape,
)
from octofold_players.endgame.solver import entry_chance, entry_move

_FORMAT = 3
_DESCRIPTION = "table.json"
_LARGEST_DESCRIPTION = 1 << 20
_ARRAYS = {"kept": np.uint64, "before": np.uint32, "entries": np.uint16}
_AT_ONCE = 1 << 24
"""Positions that are looked at together when a table is written: a multiple of 64."""
DISK_BYTES_A_POSITION = 0.75
"""With some to spare: the largest tables have an entry for one position in seven, and take 0.5."""
_U = np.uint64
_SYMMETRIES = [0, 4, 5, 1, 3, 7, 6, 2]
"""Those that `symmetric_boards` gives, in its order, by their numbers in `octofold_game.symmetries`."""
_MOVE_BACK = np.argsort(MOVES[_SYMMETRIES], axis=1)
"""[8, 4]: the move on the board that is a move on each of its `symmetric_boards`."""


class EndgameTable(NamedTuple):
    """The table of one formation, see the module."""

    shape: Shape
    kept: NDArray[np.uint64]
    before: NDArray[np.uint32]
    entries: NDArray[np.uint16]

    def numbers(self) -> Iterator[NDArray[np.generic]]:
        """The arrays on which its moves depend."""
        yield from (np.array([self.shape.kept, self.shape.largest], _U), self.kept, self.entries)


class EndgameMoves(NamedTuple):
    """What tables say about boards."""

    moves: NDArray[np.int8]
    "[N]: the move with the best chance; -1 where no table decides"
    chances: NDArray[np.float64]
    "[N]: that chance, 0 where no table decides"


def save_table(folder: Path, formation: Formation, largest: int, solved: NDArray[np.uint16]) -> int:
    """Write the table of one formation into `folder`, without the positions that it would not decide.

    An interrupted call leaves no table.

    Args:
        folder: the folder of all tables.
        formation: what was solved.
        largest: the exponent of the next tile that it was solved for.
        solved: `[positions of the shape]`, what `solver.solve` returns.

    Returns:
        the number of entries written
    """
    final = table_folder(folder, formation, largest)
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        count = _write(partial, formation, solved)
        description = {"format": _FORMAT, "formation": formation.name, "largest": largest, "entries": count}
        write_text(partial / _DESCRIPTION, json.dumps(description) + "\n")
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return count


def table_folder(folder: Path, formation: Formation, largest: int) -> Path:
    """Where in a folder of tables that of a formation is."""
    return folder / f"{formation.name}-{1 << largest}"


def _write(folder: Path, formation: Formation, solved: NDArray[np.uint16]) -> int:
    """Write the arrays piece by piece: beside `solved`, there may be no memory for them."""
    words = -(-len(solved) // 64)
    count = int(sum(np.count_nonzero(decides) for _, decides in _pieces(solved, formation.sure)))
    lengths = {"kept": words, "before": words, "entries": count}
    with ExitStack() as opened:
        files = {name: opened.enter_context((folder / f"{name}.npy").open("wb")) for name in _ARRAYS}
        for name, kind in _ARRAYS.items():
            header = {"descr": dtype_to_descr(np.dtype(kind)), "fortran_order": False}
            write_array_header_1_0(files[name], {**header, "shape": (lengths[name],)})
        before = 0
        for some, decides in _pieces(solved, formation.sure):
            bits = np.packbits(decides, bitorder="little")
            kept = np.pad(bits, (0, -len(bits) % 8)).view(np.uint64)
            counts = np.bitwise_count(kept)
            up_to = before + np.cumsum(counts, dtype=np.uint32)
            files["kept"].write(kept.data)
            files["before"].write((up_to - counts).data)
            files["entries"].write(some[decides].data)
            before = up_to[-1]
    return count


def _pieces(
    solved: NDArray[np.uint16], sure: float
) -> Iterator[tuple[NDArray[np.uint16], NDArray[np.bool_]]]:
    """Some entries at a time, and which of them decide."""
    for start in range(0, len(solved), _AT_ONCE):
        some = solved[start : start + _AT_ONCE]
        yield some, _deciding(some, sure)


def load_tables(folder: Path) -> tuple[EndgameTable, ...]:
    """The tables of a folder in the order in which they are asked, mapped into memory.

    Of one formation, the table of the largest next tile is taken.

    Raises:
        TableFileError: there are none, or one is damaged; the error names the file.
    """
    paths = table_files(folder)
    return read_tables({name: mapped(path) for name, path in paths.items()}, paths)


def table_files(folder: Path) -> dict[str, Path]:
    """The files of the tables that `load_tables` takes, by the names that `read_tables` expects.

    In a published version, all tables are in one folder, and their files already have these names.

    Raises:
        TableFileError: there are none, or a table is not described as one.
    """
    found: dict[str, tuple[int, str]] = {}
    for file in sorted([*folder.glob(f"*/{_DESCRIPTION}"), *folder.glob(f"*.{_DESCRIPTION}")]):
        described, start = _described(mapped(file), file), str(file).removesuffix(_DESCRIPTION)
        found[described.formation.name] = max(
            (described.largest, start), found.get(described.formation.name, (0, start))
        )
    if not found:
        raise TableFileError(f"{folder}: no endgame tables; make them with octofold-train endgame")
    return {
        f"{Path(start[:-1]).name}.{file}": Path(start + file)
        for _, start in found.values()
        for file in (_DESCRIPTION, *(f"{name}.npy" for name in _ARRAYS))
    }


def read_tables(
    files: Mapping[str, NDArray[np.uint8]], paths: Mapping[str, object] = MappingProxyType({})
) -> tuple[EndgameTable, ...]:
    """The tables in the bytes of files, which are not copied, in the order in which they are asked.

    Args:
        files: the content of each file by a name such as `six-1024.kept.npy`.
        paths: what errors call the files; by default their names.

    Raises:
        TableFileError: there are none, or one is missing or damaged; the error names the file.
    """
    found: dict[str, EndgameTable] = {}
    for name in files:
        if name.endswith(f".{_DESCRIPTION}"):
            formation, table = _table(name.removesuffix(f".{_DESCRIPTION}"), files, paths)
            found[formation.name] = table
    if not found:
        raise TableFileError(f"no endgame tables: no file is named TABLE.{_DESCRIPTION}")
    return tuple(found[formation.name] for formation in FORMATIONS if formation.name in found)


class _Described(NamedTuple):
    """What the description of a table says."""

    formation: Formation
    largest: int
    entries: int


def _described(content: NDArray[np.uint8], file: object) -> _Described:
    try:
        description = json.loads(content[:_LARGEST_DESCRIPTION].tobytes())
        if description["format"] != _FORMAT:
            raise ValueError(f"format {description['format']}, this version reads {_FORMAT}")
        formation = {each.name: each for each in FORMATIONS}[description["formation"]]
        largest, entries = int(description["largest"]), int(description["entries"])
        if not LEAST_NEXT <= largest <= MOST_NEXT:
            raise ValueError(f"the next tile {1 << largest} is out of range")
    except BAD_JSON as error:
        raise TableFileError(f"{file}: not an endgame table ({error})") from error
    return _Described(formation, largest, entries)


def _table(
    table: str, files: Mapping[str, NDArray[np.uint8]], paths: Mapping[str, object]
) -> tuple[Formation, EndgameTable]:
    file = f"{table}.{_DESCRIPTION}"
    formation, largest, count = _described(files[file], paths.get(file, file))
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind in _ARRAYS.items():
        file = f"{table}.{name}.npy"
        if file not in files:
            raise TableFileError(f"{file} is missing")
        arrays[name] = array_in(files[file], paths.get(file, file))
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise TableFileError(f"{paths.get(file, file)}: not a list of {np.dtype(kind).name}")
    solved = shape(formation, largest)
    words = -(-solved.positions // 64)
    whole = (
        len(arrays["kept"]) == len(arrays["before"]) == words
        and len(arrays["entries"]) == count
        and int(arrays["before"][-1]) + int(arrays["kept"][-1]).bit_count() == count
    )
    if not whole:
        raise TableFileError(f"{paths.get(file, table)}: damaged (its files do not fit together)")
    return formation, EndgameTable(solved, **arrays)


def endgame_moves(boards: NDArray[np.uint64], tables: tuple[EndgameTable, ...]) -> EndgameMoves:
    """The moves that the tables know for 64-bit boards `[N]`: of the first table that decides."""
    found = EndgameMoves(np.full(len(boards), -1, np.int8), np.zeros(len(boards)))
    for table in tables:
        _find_moves(boards, table, found.moves, found.chances)
    return found


@njit(cache=True, nogil=True)
def _deciding(entries, sure):
    """Which of `entries` `[N]` decide, with their chance: `[N] bool`."""
    decides = np.empty(len(entries), np.bool_)
    for n in range(len(entries)):
        chance = entry_chance(entries[n])
        decides[n] = chance > 0 and chance >= sure
    return decides


@njit(cache=True, nogil=True)
def _find_moves(boards, table, moves, chances):
    """Fill in what the table knows where no other one has decided."""
    symmetric = np.empty(8, np.uint64)
    for n in range(len(boards)):
        if moves[n] >= 0:
            continue
        symmetric_boards(boards[n], symmetric)
        for view in range(8):
            if holds(symmetric[view], table.shape):
                entry = _entry(index(symmetric[view], table.shape), table)
                if entry:
                    moves[n] = _MOVE_BACK[view, entry_move(entry)]
                    chances[n] = entry_chance(entry)
                break  # no board has a formation in two views


@njit(cache=True, nogil=True)
def _entry(position, table):
    """The entry of a position, 0 if the table has none; -1 is no position."""
    if position < 0:
        return np.uint16(0)
    word = position >> 6
    bit = _U(1) << _U(position & 63)
    if not table.kept[word] & bit:
        return np.uint16(0)
    place = np.int64(table.before[word]) + _count_bits(table.kept[word] & bit - _U(1))
    # A damaged file must not make this read elsewhere.
    return table.entries[place] if place < len(table.entries) else np.uint16(0)


@njit(cache=True, nogil=True)
def _count_bits(word):
    """The number of bits that are 1."""
    pairs = word - (word >> _U(1) & _U(0x5555555555555555))
    fours = (pairs & _U(0x3333333333333333)) + (pairs >> _U(2) & _U(0x3333333333333333))
    bytes_ = fours + (fours >> _U(4)) & _U(0x0F0F0F0F0F0F0F0F)
    return np.int64(bytes_ * _U(0x0101010101010101) >> _U(56))
