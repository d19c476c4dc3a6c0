"""Reads play logs as a stream of moves, and reports the lines that are not moves."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from octofold_game.play_logs.moves import LogError, LoggedMoves
from octofold_game.play_logs.text import LONGEST_LINE, parse

SUFFIXES = (".txt", ".txt.gz")
"""Suffixes of log files."""

BLOCK_BYTES = 1 << 18
"""Number of bytes that are read and parsed at a time, small enough for a core's cache."""
_TEXT, _GZIP = b"r ", b"\x1f\x8b"


@dataclass(frozen=True)
class BadLine:
    """A line of a log that is not a move, or a move that cannot have been played."""

    file: Path
    line: int
    """Number of the line, from 1."""
    reason: str

    def __str__(self) -> str:
        """Format the line, such as `moves.txt:17: it must have 20 parts, got 19`."""
        return f"{self.file}:{self.line}: {self.reason}"


def read_log(
    path: Path,
    on_bad: Callable[[BadLine], None],
    faults: Callable[[LoggedMoves], list[tuple[int, str]]] = lambda _: [],
) -> Iterator[LoggedMoves]:
    """Yield the moves of a log file in their order, some thousands at a time.

    Args:
        path: a text file, plain or compressed by gzip.
        on_bad: called with each bad line, which is skipped.
        faults: a further check, which returns the rows of bad moves, each with the reason.

    Raises:
        LogError: the compressed data is damaged or incomplete.
        OSError: the file cannot be read.
    """
    first = 0
    for block in line_blocks(path):
        moves, lines, bad = parse(block)
        if broken := faults(moves):
            bad = sorted([*bad, *((int(lines[row]), reason) for row, reason in broken)])
            moves = moves.without([row for row, _ in broken])
        for line, reason in bad:
            on_bad(BadLine(path, first + line + 1, reason))
        yield moves
        first += block.count(b"\n")


def line_blocks(path: Path) -> Iterator[bytes]:
    """Yield blocks of about `BLOCK_BYTES` of decompressed lines; every block ends in a newline.

    Parts of a line that is much longer than `LONGEST_LINE` may be dropped.

    Raises:
        LogError: the compressed data is damaged or incomplete.
        OSError: the file cannot be read.
    """
    rest = b""
    with gzip.open(path) if _begins_with(path, _GZIP) else path.open("rb") as file:
        try:
            while piece := file.read(BLOCK_BYTES):
                content = rest + piece
                end = content.rfind(b"\n") + 1
                rest = content[end:][: 2 * LONGEST_LINE]
                if end:
                    yield content[:end]
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise LogError(f"{path}: damaged or incomplete ({error})") from error
    if rest:
        yield rest + b"\n"


def log_files(path: Path) -> list[Path]:
    """Return the log files of a folder, sorted by name; for a file, return the file itself.

    Raises `LogError` if the path does not exist or the folder has no log files.
    """
    if not path.is_dir():
        if not path.exists():
            raise LogError(f"there is no {path}")
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
    if not files:
        raise LogError(f"{path} must contain play logs, whose names end in {' or '.join(SUFFIXES)}")
    return files


def is_log(path: Path) -> bool:
    """Return whether the name or the first bytes of a file look like a play log."""
    return path.name.endswith(SUFFIXES) or _begins_with(path, _TEXT, _GZIP)


def _begins_with(path: Path, *starts: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) in starts
    except OSError:
        return False  # the caller will read the file and report the error
