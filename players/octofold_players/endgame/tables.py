"""Endgame tables on disk.

A folder holds one table for each formation. The name of a table, such as `five-128`, contains its next tile.
A table leaves out positions whose chance is 0 or below the formation's minimum:

    table.json        format, name of the formation, exponent of the next tile, number of positions
    kept.npy          [W] uint64     bit n of word w: whether the table has a move for position 64 * w + n
    moves.npy         [N / 4] uint8  the moves of these positions, four in a byte, lowest bits first

These files are memory-mapped: several processes share them, and only the pages in use take memory. A table
with only the positions that occur in games (`trimming.py` makes it) has one file instead of the two arrays:

    listed.npy.xz     [N] uint64     differences of the ascending 4 * position + move; compressed
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.format import write_array
from numpy.typing import NDArray
from octofold_game.compiling import njit
from octofold_game.system.files import write_text

from octofold_players.compiled.table_files import BAD_JSON, TableFileError, array_in, mapped
from octofold_players.endgame.formation import FORMATIONS, LEAST_NEXT, MOST_NEXT, Formation, shape
from octofold_players.endgame.lookup import EndgameTable, counts_before
from octofold_players.endgame.solver import Solved

_FORMAT = 4
_DESCRIPTION = "table.json"
_LARGEST_DESCRIPTION = 1 << 20
_ARRAYS = {"kept": np.uint64, "moves": np.uint8}
_LISTED = "listed.npy.xz"
_MOST_LISTED = 1 << 26
"""Maximum number of positions in a compressed file; they take half a gigabyte when unpacked."""
_UNPACKING_BYTES = 1 << 27
"""Bytes of memory that unpacking may take in addition to its result."""
_HEADER_BYTES = 128
"""Size of the header of the `.npy` files, in bytes."""
DISK_BYTES_A_POSITION = 0.25
"""Upper estimate of the size of a table in bytes per position. The largest tables take 0.16, since they have
a move for one position in seven."""
_U = np.uint64
_Key = TypeVar("_Key")


def save_table(folder: Path, formation: Formation, largest: int, solved: Solved) -> int:
    """Write the table of a solved formation into `folder`, the folder of all tables.

    `largest` is the exponent of the table's next tile. An interrupted call leaves no incomplete table.

    Returns:
        The number of positions for which the table has a move.
    """
    count = int(np.bitwise_count(solved.kept).sum(dtype=np.int64))
    moves = np.zeros(-(-count // 4), np.uint8)
    _pack_moves(solved.kept, solved.moves, moves)
    with _new_folder(folder, formation, largest) as partial:
        np.save(partial / "kept.npy", solved.kept)
        np.save(partial / "moves.npy", moves)
        _write_description(partial, _Description(formation, largest, count))
    return count


def save_listed(folder: Path, table: EndgameTable, listed: NDArray[np.uint64]) -> Path:
    """Write a new table with only some positions of a table, and return its folder, which is in `folder`.

    An interrupted call leaves no incomplete table.

    Args:
        folder: the folder of all new tables.
        table: the table that contains the positions.
        listed: `[N]`, ascending: 4 * position + move of each selected position.

    Raises:
        TableFileError: there are more positions than a table file may list.
    """
    if len(listed) > _MOST_LISTED:
        raise TableFileError(
            f"{folder}: a table can list at most {_MOST_LISTED:,} positions, got {len(listed):,}"
        )
    formation = next(each for each in FORMATIONS if shape(each, LEAST_NEXT).kept == table.shape.kept)
    largest = int(table.shape.largest)
    with _new_folder(folder, formation, largest) as partial:
        with lzma.open(partial / _LISTED, "wb") as file:
            write_array(file, np.diff(listed, prepend=_U(0)), version=(1, 0))
        _write_description(partial, _Description(formation, largest, len(listed)))
    return table_folder(folder, formation, largest)


@contextmanager
def _new_folder(folder: Path, formation: Formation, largest: int) -> Iterator[Path]:
    """Yield a temporary folder. It becomes the table's folder unless the block raises."""
    final = table_folder(folder, formation, largest)
    partial = final.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_description(folder: Path, described: _Description) -> None:
    formation, largest, moves = described
    description = {"format": _FORMAT, "formation": formation.name, "largest": largest, "moves": moves}
    write_text(folder / _DESCRIPTION, json.dumps(description) + "\n")


def table_folder(folder: Path, formation: Formation, largest: int) -> Path:
    """Return the folder of a formation's table."""
    return folder / f"{formation.name}-{1 << largest}"


def known_positions(folder: Path, formation: Formation, largest: int) -> int | None:
    """Return the number of positions for which a formation's table has a move; None if there is no table.

    Raises:
        TableFileError: a file is missing or damaged, or describes another table. The error names the file.
    """
    table = table_folder(folder, formation, largest)
    if not table.exists():
        return None
    file = table / _DESCRIPTION
    paths = _files_of(file)
    files = {name: mapped(path) for name, path in paths.items()}
    described = _read_description(files[f"{table.name}.{_DESCRIPTION}"], file)
    if (described.formation, described.largest) != (formation, largest):
        found = f"{described.formation.name}-{1 << described.largest}"
        raise TableFileError(f"{file}: describes the table {found}, not {table.name}")
    _make_table(table.name, described, files, paths)
    return described.moves


def load_tables(folder: Path) -> tuple[EndgameTable, ...]:
    """Map the tables of a folder into memory and return them in the order of lookup.

    If the folder has several tables of a formation, only the one with the largest next tile is loaded.

    Raises:
        TableFileError: there are no tables, or a file is missing or damaged. The error names the file.
    """
    paths = table_files(folder)
    return read_tables({name: mapped(path) for name, path in paths.items()}, paths)


def table_files(folder: Path) -> dict[str, Path]:
    """Return the paths of the files that `load_tables` reads, by the names that `read_tables` expects.

    In a published version, the files of all tables are in one folder and already have these names.

    Raises:
        TableFileError: there are no tables, or a file is not the description of a table.
    """
    descriptions = [*folder.glob(f"*/{_DESCRIPTION}"), *folder.glob(f"*.{_DESCRIPTION}")]
    found = {file: _read_description(mapped(file), file) for file in descriptions}
    if not found:
        raise TableFileError(
            f"{folder}: no endgame tables; use models/perimeter, or make some with octofold-train endgame"
        )
    return {name: path for file in _in_order(found) for name, path in _files_of(file).items()}


def _files_of(description: Path) -> dict[str, Path]:
    """Return the files of the table with this description, by the names that `read_tables` expects."""
    start = str(description).removesuffix(_DESCRIPTION)
    table = Path(start[:-1]).name
    arrays = [_LISTED] if Path(start + _LISTED).exists() else [f"{array}.npy" for array in _ARRAYS]
    return {f"{table}.{name}": Path(start + name) for name in (_DESCRIPTION, *arrays)}


def read_tables(
    files: Mapping[str, NDArray[np.uint8]], paths: Mapping[str, object] = MappingProxyType({})
) -> tuple[EndgameTable, ...]:
    """Return the tables from the contents of their files, in the order of lookup.

    Mapped bytes are not copied.

    Args:
        files: the content of each file, by a name such as `six-1024.kept.npy`.
        paths: the path of each file for errors, by the same names; by default, errors contain these names.

    Raises:
        TableFileError: there are no tables, or a file is missing or damaged. The error names the file.
    """
    found = {
        name: _read_description(content, paths.get(name, name))
        for name, content in files.items()
        if name.endswith(f".{_DESCRIPTION}")
    }
    if not found:
        raise TableFileError(f"no endgame tables: no file is named TABLE.{_DESCRIPTION}")
    return tuple(
        _make_table(name.removesuffix(f".{_DESCRIPTION}"), found[name], files, paths)
        for name in _in_order(found)
    )


class _Description(NamedTuple):
    """The description of a table in `table.json`."""

    formation: Formation
    largest: int
    moves: int


def _in_order(found: Mapping[_Key, _Description]) -> list[_Key]:
    """Return the key of each formation's table with the largest next tile, in the order of lookup."""
    largest = {found[key].formation.name: key for key in sorted(found, key=lambda key: found[key].largest)}
    return [largest[each.name] for each in FORMATIONS if each.name in largest]


def _read_description(content: NDArray[np.uint8], file: object) -> _Description:
    try:
        description = json.loads(content[:_LARGEST_DESCRIPTION].tobytes())
        if description["format"] != _FORMAT:
            reads = f"this version reads format {_FORMAT}: delete the table and make it again"
            raise ValueError(f"format {description['format']}, {reads}")
        formation = {each.name: each for each in FORMATIONS}[description["formation"]]
        largest, moves = int(description["largest"]), int(description["moves"])
        if not LEAST_NEXT <= largest <= MOST_NEXT:
            raise ValueError(f"largest must be from {LEAST_NEXT} to {MOST_NEXT}, got {largest}")
        positions = shape(formation, largest).positions
        if not 0 <= moves <= positions:
            raise ValueError(f"the number of moves must be from 0 to {positions:,}, got {moves:,}")
    except BAD_JSON as error:
        raise TableFileError(f"{file}: not an endgame table ({error})") from error
    return _Description(formation, largest, moves)


def _make_table(
    table: str, described: _Description, files: Mapping[str, NDArray[np.uint8]], paths: Mapping[str, object]
) -> EndgameTable:
    formation, largest, count = described
    solved = shape(formation, largest)
    if (file := f"{table}.{_LISTED}") in files:
        listed = _read_listed(files[file], count, solved.positions, paths.get(file, file))
        return EndgameTable(solved, np.zeros(0, _U), np.zeros(0, _U), np.zeros(0, np.uint8), listed)
    lengths = {"kept": -(-solved.positions // 64), "moves": -(-count // 4)}
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind in _ARRAYS.items():
        file = f"{table}.{name}.npy"
        if file not in files:
            raise TableFileError(f"{file} is missing")
        arrays[name] = array_in(files[file], paths.get(file, file))
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            found = f"{arrays[name].dtype}{list(arrays[name].shape)}"
            raise TableFileError(f"{paths.get(file, file)}: must be {np.dtype(kind)}[N], got {found}")
    before = counts_before(arrays["kept"])
    if {name: len(array) for name, array in arrays.items()} != lengths or before[-1] != count:
        raise TableFileError(f"{paths.get(file, table)}: damaged (the files of the table do not match)")
    return EndgameTable(solved, before=before[:-1], listed=np.zeros(0, _U), **arrays)


def _read_listed(content: NDArray[np.uint8], count: int, positions: int, name: object) -> NDArray[np.uint64]:
    """Return 4 * position + move, ascending, from a compressed file, which must list `count` positions."""
    if count > _MOST_LISTED:
        raise TableFileError(f"{name}: must list at most {_MOST_LISTED:,} positions, got {count:,}")
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_UNPACKING_BYTES)
    try:
        unpacked = unpacker.decompress(content.data, count * _U(0).itemsize + _HEADER_BYTES)
    except (lzma.LZMAError, MemoryError) as error:
        raise TableFileError(f"{name}: damaged ({error})") from error
    steps = array_in(np.frombuffer(unpacked, np.uint8), name)
    if steps.dtype != _U or steps.shape != (count,) or not unpacker.eof:
        raise TableFileError(f"{name}: damaged or truncated")
    listed = np.cumsum(steps, dtype=_U)
    if not (listed[:-1] < listed[1:]).all() or (count and listed[-1] >= 4 * positions):
        raise TableFileError(f"{name}: damaged (its positions are not in order, or too large)")
    return listed


@njit(cache=True, nogil=True)
def _pack_moves(kept, moves, packed):
    """Write the moves of the kept positions into `packed`, four in a byte. `packed` must hold zeros."""
    count = 0
    for word in range(len(kept)):
        left = kept[word]
        for place in range(64 * word, 64 * word + 64):
            if not left:
                break
            if left & _U(1):
                packed[count >> 2] |= (moves[place >> 2] >> 2 * (place & 3) & 3) << 2 * (count & 3)
                count += 1
            left >>= _U(1)
