"""Which libraries a shared library needs, and which of them cannot be loaded here.

The needs are read from the file, in the format ELF: loading it to find out would run its code, and a
provider of onnxruntime must be loaded by onnxruntime alone. The reader is for 64-bit little-endian files,
which are all that onnxruntime is published as for Linux; it takes others for files that need nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_LOAD, _DYNAMIC = 1, 2
"""Types of a segment."""
_END, _NEEDED, _STRINGS, _STRINGS_SIZE = 0, 1, 5, 10
"""Types of an entry of the dynamic segment."""


def missing_library(file: Path, load: Callable[[str], object] = ctypes.CDLL) -> str | None:
    """Why the first library that `file` needs cannot be loaded, in one line; None if all can be.

    Args:
        file: a shared library.
        load: loads a library by its name; raises OSError if it cannot.
    """
    for name in needed_libraries(file):
        try:
            load(name)
        except OSError as error:
            library, what, _ = str(error).partition(": cannot open shared object file")
            return f"the library {library} is missing" if what else f"the library {name} fails: {error}"
    return None


def needed_libraries(file: Path) -> list[str]:
    """The names of the libraries that a shared library is linked with, in their order.

    Raises:
        OSError: the file cannot be read.
    """
    with file.open("rb") as opened:
        try:
            return _needed(opened)
        except struct.error:  # the file is cut off
            return []


def _needed(file: BinaryIO) -> list[str]:
    header = file.read(_HEADER.size)
    if not header.startswith(_ELF_64_LITTLE):
        return []
    _, _, _, _, _, at, _, _, _, _, count, _, _, _ = _HEADER.unpack(header)
    file.seek(at)
    segments = [_SEGMENT.unpack(file.read(_SEGMENT.size)) for _ in range(count)]
    loaded = [(address, size, offset) for kind, _, offset, address, _, size, *_ in segments if kind == _LOAD]
    dynamic = next(((offset, size) for kind, _, offset, _, _, size, *_ in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return []
    file.seek(dynamic[0])
    entries = list(_entries(file.read(dynamic[1])))
    found = dict(entries)
    address = found[_STRINGS]
    start = next(
        offset + address - first for first, size, offset in loaded if first <= address < first + size
    )
    file.seek(start)
    strings = file.read(found[_STRINGS_SIZE])
    return [strings[at : strings.index(b"\0", at)].decode() for kind, at in entries if kind == _NEEDED]


def _entries(segment: bytes) -> Iterator[tuple[int, int]]:
    for kind, value in _ENTRY.iter_unpack(segment[: len(segment) // _ENTRY.size * _ENTRY.size]):
        if kind == _END:
            return
        yield kind, value
