"""Converts lines of play logs to moves and back, many lines at a time.

numpy parses all tokens of a block of well-formed lines at once. A malformed line is then parsed again by
itself, to explain its fault.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import atomic_write

LONGEST_LINE = 1000
"""Maximum number of bytes of a line without its newline. A move takes at most 56 bytes; the rest is room for
additional white space."""

_MARK, _BOARD, _COLON, _MOVE, _CELL, _TOKENS = 0, slice(1, 17), 17, 18, 19, 20
_LARGEST = np.full(_TOKENS, LARGEST_EXPONENT, dtype=np.uint8)
_LARGEST[[_MOVE, _CELL]] = 3, 15
_GZIP_LEVEL = 3
_SPACE, _ZERO, _NEWLINE = np.frombuffer(b" 0\n", dtype=np.uint8)


def parse(block: bytes) -> tuple[LoggedMoves, NDArray[np.int64], list[tuple[int, str]]]:
    """Parse complete lines.

    Args:
        block: lines, each ended by a newline. Empty lines are numbered, but are neither moves nor bad lines.

    Returns:
        The moves of the good lines in their order; the numbers `[N]` of these lines in the block, from 0; the
        number and the fault of each bad line.
    """
    content = np.frombuffer(block, dtype=np.uint8)
    starts, ends = _tokens(content)
    line_ends = np.flatnonzero(content == _NEWLINE)
    tokens_before = np.searchsorted(starts, line_ends)
    count = np.diff(tokens_before, prepend=0)
    length = np.diff(line_ends, prepend=-1) - 1
    complete = (count == _TOKENS) & (length <= LONGEST_LINE)
    if not complete.all():
        kept = np.repeat(complete, count)
        starts, ends = starts[kept], ends[kept]
    numbers, right = _numbers(content, starts, ends)
    lines = np.flatnonzero(complete)
    bad = np.flatnonzero((count > 0) & ~complete)
    if not right.all():
        bad = np.sort(np.concatenate([bad, lines[~right]]))
        numbers, lines = numbers[right], lines[right]
    moves = np.ascontiguousarray(numbers[:, _BOARD]), numbers[:, _MOVE].copy(), numbers[:, _CELL].copy()
    reasons = [
        (line, fault_of(block[line_ends[line - 1] + 1 if line else 0 : line_ends[line]]))
        for line in bad.tolist()
    ]
    return LoggedMoves(*moves), lines, reasons


def _tokens(content: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start of each token, and its end (exclusive)."""
    solid = content > _SPACE  # control characters such as tabs separate tokens, too
    edges = np.flatnonzero(solid[1:] != solid[:-1]) + 1
    if len(solid) and solid[0]:
        edges = np.concatenate([[0], edges])
    return edges[0::2], edges[1::2]


def _numbers(
    content: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the numbers `[L, 20]` of lines with 20 tokens, and whether each line is a move: `[L]`."""
    size = ends - starts
    # Bytes below "0" wrap around to large numbers.
    first, last = content[starts] - _ZERO, content[ends - 1] - _ZERO
    two = size == 2
    digits = (last < 10) & np.where(two, first < 10, size == 1)
    numbers = np.where(two, first * np.uint8(10) + last, last).reshape(-1, _TOKENS)
    right = digits.reshape(-1, _TOKENS) & (numbers <= _LARGEST)
    for token, sign in (_MARK, b"r"), (_COLON, b":"):
        right[:, token] = (numbers[:, token] == sign[0] - _ZERO) & (size[token::_TOKENS] == 1)
    return numbers, right.all(axis=1)


def fault_of(line: bytes) -> str:
    """Explain why a line, given without its newline, is not a move; return "" if it is one."""
    if len(line) > LONGEST_LINE:
        return f"it is longer than {LONGEST_LINE:,} bytes"
    tokens = "".join(chr(byte) if byte > _SPACE else " " for byte in line).split(" ")
    tokens = [token for token in tokens if token]
    if tokens and tokens[_MARK] != "r":
        return f"it begins with {tokens[_MARK][:20]!r}, not with 'r'"
    if len(tokens) != _TOKENS:
        return f"it must have {_TOKENS} parts, got {len(tokens)}"
    if tokens[_COLON] != ":":
        return f"a colon must follow the 16 exponents, got {tokens[_COLON][:20]!r}"
    named = {number: f"exponent {number}" for number in range(1, 17)}
    for number, name in {**named, _MOVE: "the move", _CELL: "the new tile's cell"}.items():
        token, largest = tokens[number], int(_LARGEST[number])
        if not (token.isascii() and token.isdecimal() and len(token) <= 2 and int(token) <= largest):
            return f"{name} is {token[:20]!r}, not a number from 0 to {largest}"
    return ""


def format_moves(moves: LoggedMoves) -> bytes:
    """Format moves as lines of a play log."""
    lines = np.zeros((len(moves), 57), dtype=np.uint8)  # the padding of zero bytes is removed below
    lines[:, 0] = ord("r")
    lines[:, 1:49] = _SHOWN[moves.boards].reshape(-1, 48)
    lines[:, 49:51] = np.frombuffer(b" :", dtype=np.uint8)
    lines[:, 51:53] = _SHOWN[moves.moves, :2]
    lines[:, 53:56] = _SHOWN[moves.cells]
    lines[:, 56] = _NEWLINE
    text: bytes = lines[lines != 0].tobytes()
    return text


@contextmanager
def log_writer(path: Path) -> Iterator[Callable[[LoggedMoves], object]]:
    """Yield a function that appends moves to a log file, which is compressed if its name ends in `.gz`.

    The file appears under its name when the block ends without an error.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_write(path) as partial, partial.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as zipped:
                yield lambda moves: zipped.write(format_moves(moves))
        else:
            yield lambda moves: raw.write(format_moves(moves))


_SHOWN: NDArray[np.uint8] = np.array(
    [list(f" {number}".encode().ljust(3, b"\0")) for number in range(LARGEST_EXPONENT + 1)], dtype=np.uint8
)
"""`[18, 3]`: the text of each number from 0 to 17, with a space before it, padded with zero bytes."""
