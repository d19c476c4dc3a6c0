"""Boards as sixteen characters, one for each cell: the form in which an address contains a board."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import check_boards
from octofold_proto.errors import InvalidRequest

from octofold_server.system.quoting import quoted

CELLS = 16
DIGITS = "0123456789abcdefgh"
"""Hexadecimal exponents. Two letters more stand for the tiles 65536 and 131072."""
_EXAMPLE = "0112033447120a91"


def parse_board(text: str, largest_exponent: int) -> NDArray[np.uint8]:
    """The board [1, 16] of a text such as `EDC1...`, row by row from the top left.

    Args:
        text: sixteen digits; letters may be capital.
        largest_exponent: largest exponent that the model accepts.

    Raises:
        InvalidRequest: the text is not a board.
        BoardError: a cell exceeds `largest_exponent`.
    """
    if len(text) != CELLS:
        raise InvalidRequest(
            f"board has {len(text)} characters; it takes {CELLS}, an exponent for each cell (0 is empty, "
            f"1 is the tile 2, a is 1024), such as {_EXAMPLE}"
        )
    exponents = [DIGITS.find(digit) for digit in text.lower()]
    if -1 in exponents:
        cell = exponents.index(-1)
        raise InvalidRequest(
            f"board, row {cell // 4 + 1}, column {cell % 4 + 1}: {quoted(text[cell])} is not one of {DIGITS}"
        )
    return check_boards([exponents], largest_exponent)
