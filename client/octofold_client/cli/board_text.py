"""Parses boards that people type: sixteen exponents or tiles, in one line or in four lines of four.

Spaces, commas, semicolons, slashes and brackets separate the cells, as people, spreadsheets, numpy and JSON
write them.
"""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT

_SEPARATORS = re.compile(r"[\s,;/\[\]\"\ufeff]+")
_TILES = frozenset(1 << exponent for exponent in range(1, LARGEST_EXPONENT + 1))


class BoardTextError(OctofoldError, ValueError):
    """The text is not a board; the message names the line, the row and the column, all from 1."""


def parse_board(
    text: str, *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT, where: str = "board"
) -> list[int]:
    """The 16 exponents of one board, row by row from the top left.

    Args:
        text: 16 numbers.
        tiles: whether the numbers are tiles (0, 2, 4, 8 ...) instead of exponents (0, 1, 2, 3 ...).
        largest_exponent: largest allowed exponent.
        where: start of error messages.

    Raises:
        BoardTextError: the text is not a board.
    """
    words = _cells(text)
    if len(words) != 16:
        raise BoardTextError(f"{where}: a board has 16 cells, got {len(words)}")
    parse_cell = _parse_tile if tiles else _parse_exponent
    return [
        parse_cell(word, largest_exponent, f"{where}, row {cell // 4 + 1}, column {cell % 4 + 1}")
        for cell, word in enumerate(words)
    ]


def parse_lines(
    lines: Iterable[str], *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT
) -> NDArray[np.uint8]:
    """The boards in `lines`, one in each line or in four lines of 4 cells, as `[N, 16] uint8`.

    Lines without cells are skipped.

    Raises:
        BoardTextError: a line is not a board.
    """
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if _cells(line))
    boards = []
    for number, line in numbered:
        text, where = line, f"line {number}"
        for _ in range(3 if len(_cells(line)) == 4 else 0):
            last, more = next(numbered, (0, ""))
            if len(_cells(more)) != 4:
                raise BoardTextError(f"{where}: a board of four lines needs 4 cells in each")
            text, where = f"{text} {more}", f"lines {number} to {last}"
        boards.append(parse_board(text, tiles=tiles, largest_exponent=largest_exponent, where=where))
    return np.array(boards, np.uint8).reshape(-1, 16)


def _cells(text: str) -> list[str]:
    return [word for word in _SEPARATORS.split(text) if word]


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


def _parse_number(word: str, kind: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise BoardTextError(f"{where}: {word!r} is not {kind}")
    # int() refuses thousands of digits; no cell needs more than six.
    return int(word) if len(word) <= 12 else 10**12
