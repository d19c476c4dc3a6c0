"""Reads weight files of TDL2048 (https://github.com/moporgic/TDL2048), whose networks are built like ours.

All numbers are little-endian:

    "w" (not in old files), u8 0, u32 number of tables; for each table:
    u8 4, u32 name, u16 number of digits of the name, u16 0,
    u16 bytes of a value, u64 number of values, the values;
    other arrays in the same form as the values, such as the state of learning; u16 0

The hexadecimal digits of the name are the cells of the tuple. The first cell is the lowest digit of an index,
as in our tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_players.compiled.table_files import TableFileError, mapped
from octofold_players.ntuple.tuples import LONGEST_TUPLE, check_tuples


def read_weights(file: Path) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.float32]]:
    """Return the tuples of a network and its values `[T * 16**L]`.

    Raises `TableFileError`, which says what is wrong with the file. The values take at most twice as much
    memory as the file takes on disk.
    """
    content = _Content(mapped(file))
    try:
        begins = content.number("u1")
        if begins == ord("w"):
            begins = content.number("u1")
        if begins:
            raise ValueError(f"its first number must be 0, got {begins}")
        tables = [_table(content) for _ in range(content.number("<u4"))]
        tuples = tuple(cells for cells, _ in tables)
        check_tuples(tuples)
        if len(set(tuples)) < len(tuples):
            raise ValueError("two tables have the same cells")
        return tuples, np.concatenate([values for _, values in tables], dtype=np.float32, casting="same_kind")
    except ValueError as error:
        raise TableFileError(f"{file}: not a weight file of TDL2048 with one stage ({error})") from error


class _Content:
    """The bytes of a file, with the position of the next read."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content = content
        self._at = 0

    def array(self, kind: str, count: int) -> NDArray[Any]:
        """Return a view of the next `count` numbers; raises `ValueError` if the file ends before them."""
        start, self._at = self._at, self._at + count * np.dtype(kind).itemsize
        if self._at > len(self._content):
            raise ValueError(f"it must have at least {self._at:,} bytes, got {len(self._content):,}")
        return np.frombuffer(self._content, kind, count, start)

    def number(self, kind: str) -> int:
        return int(self.array(kind, 1)[0])


def _table(content: _Content) -> tuple[tuple[int, ...], NDArray[Any]]:
    """Return the cells of the next table and its values."""
    if (form := content.number("u1")) != 4:
        raise ValueError(f"the format of a table must be 4, got {form}")
    name, _, is_text, size, count = (content.number(kind) for kind in ("<u4", "<u2", "<u2", "<u2", "<u8"))
    length = (count.bit_length() - 1) // 4
    if is_text or count != 16**length or name >= count or not 1 <= length <= LONGEST_TUPLE:
        raise ValueError(f"the table {name:x} with {count:,} values is not the table of a tuple")
    if size not in (2, 4, 8):
        raise ValueError(f"values must have 2, 4 or 8 bytes, got {size}")
    values = content.array(f"<f{size}", count)
    while size := content.number("<u2"):
        content.array("u1", size * content.number("<u8"))
    return tuple(int(digit, 16) for digit in f"{name:0{length}x}"), values
