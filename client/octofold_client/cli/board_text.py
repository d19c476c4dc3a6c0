"""Parses boards that people type: sixteen exponents or tiles, in one line or in four rows of four.

Spaces or commas separate the cells. Rows end with a line, a semicolon or a slash, or stand in brackets, as
numpy and JSON print them.
"""

import re
from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT

_ROW_END = re.compile(r"\s*\]\s*,?\s*\[\s*|\s*[;/\n]\s*")
_AROUND = re.compile(r"^[\s\[]+|[\s\];/]+$")


class BoardTextError(OctofoldError, ValueError):
    """The text is not a board; the message names the line, the row and the column, all from 1."""


def parse_board(
    text: str, *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT, where: str = "board"
) -> list[int]:
    """The 16 exponents of one board, row by row from the top left: all in a row, or four rows of four.

    Args:
        text: 16 numbers.
        tiles: whether the numbers are tiles (0, 2, 4, 8 ...) instead of exponents (0, 1, 2, 3 ...).
        largest_exponent: largest allowed exponent.
        where: start of error messages.

    Raises:
        BoardTextError: the text is not a board.
    """
    rows = [_cells(row) for row in _ROW_END.split(_AROUND.sub("", text))]
    words = [word for row in rows for word in row]
    if len(words) != 16:
        raise BoardTextError(f"{where}: a board has 16 cells, got {len(words)}")
    if len(rows) > 1 and any(len(row) != 4 for row in rows):
        lengths = ", ".join(str(len(row)) for row in rows)
        raise BoardTextError(f"{where}: a board has four rows of 4 cells, got rows of {lengths}")
    parse_cell = _parse_tile if tiles else _parse_exponent
    return [
        parse_cell(word, largest_exponent, f"{where}, row {cell // 4 + 1}, column {cell % 4 + 1}")
        for cell, word in enumerate(words)
    ]


def parse_lines(
    lines: Iterable[str], *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT
) -> NDArray[np.uint8]:
    """The boards in `lines`, one in each line or in four lines of 4 cells, as `[N, 16] uint8`.

    Blank lines are skipped.

    Raises:
        BoardTextError: a line is not a board.
    """
    readable = ((number, _from_spreadsheet(line)) for number, line in enumerate(lines, start=1))
    numbered = ((number, line) for number, line in readable if line)
    boards = []
    for number, line in numbered:
        text, where = line, f"line {number}"
        if len(_cells(_row(line))) == 4:
            others = list(islice(numbered, 3))
            text = "\n".join(_row(row) for row in (line, *(other for _, other in others)))
            where = f"lines {number} to {others[-1][0]}" if others else where
        boards.append(parse_board(text, tiles=tiles, largest_exponent=largest_exponent, where=where))
    return np.array(boards, np.uint8).reshape(-1, 16)


def _from_spreadsheet(line: str) -> str:
    """A line without a byte order mark and quotes, and with commas where semicolons separate cells."""
    line = line.strip().removeprefix("\ufeff").replace('"', "").strip()
    is_row = line.count(";") in (3, 15) and not re.search(r"[\s,;/]", line.replace(";", ""))
    return line.replace(";", ",") if is_row else line


def _row(line: str) -> str:
    """A line that may be one row of a board, without brackets and what ends it."""
    bare = line.removesuffix(",") if line.endswith("],") else line
    return bare.strip("[];/ \t")


def _cells(row: str) -> list[str]:
    # Nothing between two commas is an empty cell; several spaces are one separator.
    return [word.strip() for word in row.split(",")] if "," in row else row.split()


def _parse_exponent(word: str, largest_exponent: int, where: str) -> int:
    value = _parse_number(word, "an exponent", where)
    if value > largest_exponent:
        hint = " (use --tiles if these are tiles)" if value in _TILES else ""
        raise BoardTextError(f"{where}: {word} is above the largest exponent, {largest_exponent}{hint}")
    return value


def _parse_tile(word: str, largest_exponent: int, where: str) -> int:
    value = _parse_number(word, "a tile", where)
    if value and value not in _TILES:
        raise BoardTextError(f"{where}: {word} is not a tile; tiles are 0, 2, 4, 8 and so on")
    exponent = value.bit_length() - 1 if value else 0
    if exponent > largest_exponent:
        raise BoardTextError(f"{where}: {word} is above the largest tile, {1 << largest_exponent}")
    return exponent


_TILES = frozenset(1 << exponent for exponent in range(1, LARGEST_EXPONENT + 1))


def _parse_number(word: str, kind: str, where: str) -> int:
    if word == "":
        return 0
    if not (word.isascii() and word.isdigit()):
        raise BoardTextError(f"{where}: {word!r} is not {kind}")
    # int() refuses thousands of digits; no cell needs more than six.
    return int(word) if len(word) <= 12 else 10**12
