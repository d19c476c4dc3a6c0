"""Reads and writes arrays on disk: the tables of n-tuple networks and of endgames."""

from __future__ import annotations

import math
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_game.system.files import atomic_write

BAD_JSON = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError)
"""Exceptions that reading a table's description may raise, if it is not JSON or has the wrong fields."""


class TableFileError(OctofoldError, ValueError):
    """An error about a file of a network or an endgame table that is missing or cannot be used."""


_LARGEST_HEADER = 1 << 16
_ROWS = 1 << 22
"""Number of rows of an array in one write. A write copies its rows, so small writes take less memory."""


def save_array(file: Path, array: NDArray[np.generic]) -> None:
    """Write an array as `np.save` does. A failed write leaves no partial file.

    Raises:
        OSError: the file cannot be written. Unlike numpy's error, this one gives the reason.
    """
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    with atomic_write(file) as partial, partial.open("wb") as opened:
        npy.write_array_header_1_0(opened, header)
        for start in range(0, len(array), _ROWS):
            opened.write(np.ascontiguousarray(array[start : start + _ROWS]).data)


def mapped(file: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file, mapped read-only. Raises `TableFileError` if it cannot be opened."""
    try:
        if not file.stat().st_size:  # an empty file cannot be mapped
            return np.zeros(0, np.uint8)
        return np.asarray(np.memmap(file, np.uint8, mode="r"))
    except OSError as error:
        raise TableFileError(f"{file}: {error.strerror or error}") from error


def array_in(content: NDArray[np.uint8], name: object) -> NDArray[Any]:
    """Return the array in the bytes of an `.npy` file, without copying them.

    Raises `TableFileError`, which names the file `name` and says what is wrong with it.
    """
    try:
        start = BytesIO(content[:_LARGEST_HEADER].tobytes())
        version = npy.read_magic(start)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, fortran_order, dtype = npy.read_array_header_1_0(start)
        count = math.prod(shape)
        if dtype.hasobject or fortran_order or start.tell() + count * dtype.itemsize != len(content):
            raise ValueError(f"{shape} of {dtype}")
        array = np.frombuffer(content, dtype, count, start.tell()).reshape(shape)
    except (ValueError, EOFError, TypeError, OverflowError, MemoryError) as error:
        raise TableFileError(f"{name}: damaged, or not an array of numbers") from error
    return array
