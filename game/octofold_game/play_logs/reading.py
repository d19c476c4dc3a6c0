"""Reads play logs as a stream, in any of their formats, and reports the lines that are not moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from octofold_game.play_logs.moves import LogError, LoggedMoves
from octofold_game.play_logs.parquet import read_parquet
from octofold_game.play_logs.streams import is_parquet, line_blocks
from octofold_game.play_logs.text import parse

SUFFIXES = (".txt", ".txt.gz", ".txt.zst", ".parquet")
"""Suffixes of log files."""

SCORES = "scores.parquet"
"""The file that `octofold report --parquet` writes beside the games; it is no log."""


@dataclass(frozen=True)
class BadLine:
    """A line of a log that is not a move, or a move that cannot have been played."""

    file: Path
    line: int
    """Number of the line, from 1; in a Parquet file, the row."""
    reason: str

    def __str__(self) -> str:
        """Such as `moves.txt:17: it has 19 parts, a move has 20`."""
        return f"{self.file}:{self.line}: {self.reason}"


def read_log(
    path: Path,
    on_bad: Callable[[BadLine], None],
    faults: Callable[[LoggedMoves], list[tuple[int, str]]] = lambda _: [],
) -> Iterator[LoggedMoves]:
    """Yield the moves of a log file in their order, some thousands at a time.

    Args:
        path: a text file, plain or compressed by gzip or zstd, or a Parquet file.
        on_bad: called for each bad line, which is left out.
        faults: the rows of moves that are bad lines, too, each with the reason.

    Raises:
        LogError: the file cannot be decoded, or a package is missing for it.
        OSError: the file cannot be read.
    """
    for moves, lines, bad in read_parquet(path) if is_parquet(path) else _read_text(path):
        found = bad
        if broken := faults(moves):
            found = sorted([*bad, *((int(lines[row]), reason) for row, reason in broken)])
            moves = moves.without([row for row, _ in broken])
        for line, reason in found:
            on_bad(BadLine(path, line + 1, reason))
        yield moves


def log_files(path: Path) -> list[Path]:
    """The log files of a folder, by name; or the file itself.

    Raises:
        LogError: the path does not exist, or the folder contains no log.
    """
    if not path.is_dir():
        if not path.exists():
            raise LogError(f"there is no {path}")
        return [path]
    files = sorted(file for file in path.iterdir() if is_log(file) and file.is_file())
    if not files:
        raise LogError(f"{path} contains no play log: no file whose name ends in {', '.join(SUFFIXES)}")
    return files


def is_log(path: Path) -> bool:
    """Whether the name of the file is one of a play log."""
    return path.name.endswith(SUFFIXES) and path.name != SCORES


def _read_text(path: Path) -> Iterator[tuple[LoggedMoves, NDArray[np.int64], list[tuple[int, str]]]]:
    first = 0
    for block in line_blocks(path):
        moves, lines, bad = parse(block)
        yield moves, lines + first, [(line + first, reason) for line, reason in bad]
        first += block.count(b"\n")
