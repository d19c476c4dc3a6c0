"""Parses boards that people type: sixteen exponents or tiles, separated by spaces or commas."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import LARGEST_EXPONENT


class BoardTextError(ValueError):
    """The text is not a board; the message names the line (from 1) and the cell (from 0)."""


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
    # Nothing between two commas is an empty cell; several spaces are one separator.
    words = [word.strip() for word in text.split(",")] if "," in text else text.split()
    if len(words) != 16:
        raise BoardTextError(f"{where}: a board has 16 cells, got {len(words)}")
    parse_cell = _parse_tile if tiles else _parse_exponent
    return [parse_cell(word, largest_exponent, f"{where}, cell {cell}") for cell, word in enumerate(words)]


def parse_lines(
    lines: Iterable[str], *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT
) -> NDArray[np.uint8]:
    """The boards in `lines`, one in each line, as `[N, 16] uint8`; blank lines are skipped.

    Raises:
        BoardTextError: a line is not a board.
    """
    boards = [
        parse_board(line, tiles=tiles, largest_exponent=largest_exponent, where=f"line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return np.array(boards, np.uint8).reshape(-1, 16)


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
