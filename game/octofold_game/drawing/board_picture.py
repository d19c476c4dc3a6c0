"""Draws boards as pictures, for environments.

Only this module needs Pillow, which is not part of the base installation. Import it only to draw.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from octofold_game.drawing.palette import EMPTY, FRAME, color_of

CELL_PIXELS = 64
_GAP = 6
BOARD_PIXELS = 4 * CELL_PIXELS + 5 * _GAP
_LARGEST_TEXT = 28


def board_pixels(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture of a board `[16]`: `[BOARD_PIXELS, BOARD_PIXELS, 3]`, red, green and blue."""
    picture = Image.new("RGB", (BOARD_PIXELS, BOARD_PIXELS), FRAME)
    for cell, exponent in enumerate(board.tolist()):
        row, column = divmod(cell, 4)
        step = CELL_PIXELS + _GAP
        picture.paste(_tile(exponent), (_GAP + column * step, _GAP + row * step))
    return np.array(picture)


@lru_cache
def _tile(exponent: int) -> Image.Image:
    """A cell with a tile, or an empty one."""
    area = (0, 0, CELL_PIXELS - 1, CELL_PIXELS - 1)
    picture = Image.new("RGB", (CELL_PIXELS, CELL_PIXELS), FRAME)
    drawing = ImageDraw.Draw(picture)
    if not exponent:
        drawing.rounded_rectangle(area, 5, EMPTY)
        return picture
    color = color_of(exponent)
    drawing.rounded_rectangle(area, 5, color.background)
    number = str(1 << exponent)
    font = ImageFont.load_default(min(_LARGEST_TEXT, 100 // len(number)))
    drawing.text((CELL_PIXELS / 2, CELL_PIXELS / 2), number, color.text, font, anchor="mm")
    return picture
