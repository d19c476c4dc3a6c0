"""Saves positions of a game as an animated GIF.

This module needs Pillow, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.board_picture import BOARD_PIXELS, draw_board, font_of
from octofold_game.drawing.palette import INK, PAPER
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import whole_file
from PIL import Image, ImageDraw

_MARGIN, _LINE_PIXELS = 8, 19
_TEXT_PIXELS, _SMALLEST_TEXT_PIXELS = 15, 9
_WIDTH = BOARD_PIXELS + 2 * _MARGIN
_LAST_MS = 3_000
"""How long the last position is shown."""

Scene = tuple[NDArray[np.uint8], Sequence[str]]
"""A board `[16]`, and the lines of text above it."""


def save_gif(file: Path, scenes: Iterator[Scene], count: int, per_second: int) -> None:
    """Write `count` boards as a GIF that repeats; it needs memory for all of them, some 0.1 MB each.

    Raises:
        OSError: the file cannot be written.
    """
    first = next(scenes)
    lines = len(first[1])
    palette = _palette()

    def frame(scene: Scene) -> Image.Image:
        return _picture(*scene, lines).quantize(palette=palette, dither=Image.Dither.NONE)

    durations = [round(1000 / per_second)] * (count - 1) + [_LAST_MS]
    with whole_file(file) as partial:
        frame(first).save(
            partial,
            format="GIF",
            save_all=True,
            append_images=map(frame, scenes),
            duration=durations,
            loop=0,
            palette=palette.getpalette(),  # one for all frames
        )


def _picture(board: NDArray[np.uint8], lines: Sequence[str], most_lines: int) -> Image.Image:
    top = _MARGIN + _LINE_PIXELS * most_lines + _MARGIN // 2
    picture = Image.new("RGB", (_WIDTH, top + BOARD_PIXELS + _MARGIN), PAPER)
    drawing = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        at = (_MARGIN, _MARGIN + number * _LINE_PIXELS)
        size = _TEXT_PIXELS
        while size > _SMALLEST_TEXT_PIXELS and drawing.textlength(line, font_of(size)) > BOARD_PIXELS:
            size -= 1
        drawing.text(at, line, INK, font_of(size))
    draw_board(picture, board, _MARGIN, top)
    return picture


def _palette() -> Image.Image:
    """A picture whose palette suits all tiles."""
    tiles = np.arange(LARGEST_EXPONENT + 1, dtype=np.uint8)
    boards = [np.resize(tiles[first:], 16) for first in (0, LARGEST_EXPONENT - 4)]
    pictures = [_picture(board, ["0123456789, an example of text"], 1) for board in boards]
    both = Image.new("RGB", (_WIDTH, 2 * pictures[0].height))
    for number, picture in enumerate(pictures):
        both.paste(picture, (0, number * picture.height))
    return both.quantize(256)
