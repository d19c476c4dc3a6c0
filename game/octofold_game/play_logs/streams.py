"""Bytes of log files, compressed by gzip or zstd or not at all: read as blocks of whole lines, and written.

A file is read by what it begins with and written by what its name ends with. zstd needs the package
`zstandard`, from the extra `logs`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from octofold_game.commands.extras import install_command
from octofold_game.play_logs.moves import LogError
from octofold_game.play_logs.text import LONGEST_LINE
from octofold_game.system.files import whole_file

BLOCK_BYTES = 1 << 18  # fits a core's cache
_COMPRESSED_BYTES = 1 << 9  # zstd may make 32,768 times as much of them: 16 MiB
_TEXT, _GZIP, _ZSTD, _PARQUET = b"r ", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""First bytes of a zstd frame without content; pzstd writes one before each other frame."""
GZIP_LEVEL, ZSTD_LEVEL = 3, 3


@contextmanager
def needing_logs(purpose: str) -> Iterator[None]:
    """A block that imports from the extra `logs`. Raises `LogError` that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise LogError(f"{purpose} needs {missing}: run {install_command('logs')}") from None


def is_parquet(path: Path) -> bool:
    """Whether the file is in the Parquet format.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def begins_as_log(path: Path) -> bool:
    """Whether the first bytes of a file are those of a play log: of text, gzip, zstd or Parquet."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((_TEXT, _GZIP, _ZSTD, _PARQUET, *_SKIPPABLE))
    except OSError:
        return False  # the reader says why it cannot be read


def line_blocks(path: Path) -> Iterator[bytes]:
    """The lines of a text file, decompressed, in blocks of about `BLOCK_BYTES`; each line ends in a newline.

    A line that is much longer than `LONGEST_LINE` comes without its rest.

    Raises:
        LogError: the compressed data is damaged or cut short, or zstandard is not installed.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(_ZSTD))
        file.seek(0)
        if start.startswith(_GZIP):
            pieces = _gunzipped(path, file)
        elif start.startswith((_ZSTD, *_SKIPPABLE)):
            pieces = _cut(_unzstd(path, file))
        else:
            pieces = iter(lambda: file.read(BLOCK_BYTES), b"")
        yield from _whole_lines(pieces)


def _cut(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at most `BLOCK_BYTES`."""
    for piece in pieces:
        for start in range(0, len(piece), BLOCK_BYTES):
            yield piece[start : start + BLOCK_BYTES]


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size, rest = 0, b""
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            content = b"".join([rest, *waiting])
            end = content.rfind(b"\n") + 1
            rest = content[end:][: 2 * LONGEST_LINE]
            waiting, size = [], 0
            if end:
                yield content[:end]
    content = b"".join([rest, *waiting])
    if content:
        yield content if content.endswith(b"\n") else content + b"\n"


def _gunzipped(path: Path, file: BinaryIO) -> Iterator[bytes]:
    with gzip.open(file) as unzipped:
        try:
            while piece := unzipped.read(BLOCK_BYTES):
                yield piece
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise LogError(f"{path}: damaged or cut short ({error})") from error


def _unzstd(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Frame by frame: the stream readers of the package do not notice a frame that is cut short."""
    with needing_logs(f"{path}: zstd"):
        import zstandard
    decompressor = zstandard.ZstdDecompressor()
    frame = None
    while compressed := file.read(_COMPRESSED_BYTES):
        while compressed:
            frame = frame or decompressor.decompressobj()
            try:
                yield frame.decompress(compressed)
            except zstandard.ZstdError as error:
                raise LogError(f"{path}: damaged ({error})") from error
            compressed = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise LogError(f"{path}: cut short, it ends within a zstd frame")


@contextmanager
def whole_text_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write text into, compressed if the name ends in `.gz` or `.zst`.

    The file replaces `path` when the block ends; if the block fails, nothing is left of it.

    Raises:
        LogError: zstandard is not installed.
        OSError: the file cannot be written.
    """
    with whole_file(path) as partial, partial.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(
                filename="", mode="wb", fileobj=raw, compresslevel=GZIP_LEVEL, mtime=0
            ) as zipped:
                yield cast(BinaryIO, zipped)
        elif path.suffix == ".zst":
            with needing_logs(f"{path}: zstd"):
                import zstandard
            with zstandard.ZstdCompressor(level=ZSTD_LEVEL).stream_writer(raw, closefd=False) as writer:
                yield writer
        else:
            yield raw
