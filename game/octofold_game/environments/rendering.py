"""Renders boards for the gymnasium environment: as text, as pixels, or in a window."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from octofold_game.commands.extras import install_command
from octofold_game.drawing.palette import EMPTY, FRAME, color_of

FRAMES_PER_SECOND = 10
"""Maximum number of boards that a window shows each second."""
CELL_PIXELS = 64
_GAP = 6
BOARD_PIXELS = 4 * CELL_PIXELS + 5 * _GAP
_LARGEST_TEXT = 28


def pixels_of(board: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Draw a board `[16]` as pixels `[BOARD_PIXELS, BOARD_PIXELS, 3]`: red, green and blue.

    Raises:
        DependencyNotInstalled: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise _missing("pictures of boards", error, "gymnasium") from None
    picture = Image.new("RGB", (BOARD_PIXELS, BOARD_PIXELS), FRAME)
    for cell, exponent in enumerate(board.tolist()):
        row, column = divmod(cell, 4)
        step = CELL_PIXELS + _GAP
        picture.paste(_tile(exponent), (_GAP + column * step, _GAP + row * step))
    return np.array(picture)


@lru_cache
def _tile(exponent: int) -> Any:
    """Draw a cell: empty for exponent 0, otherwise with its tile."""
    from PIL import Image, ImageDraw, ImageFont

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


class Window:
    """A pygame window that shows a board."""

    def __init__(self, title: str) -> None:
        """Prepare the window; it opens with the first board.

        Raises:
            DependencyNotInstalled: pygame is not installed.
        """
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # or pygame prints a greeting
        try:
            import pygame
        except ModuleNotFoundError as error:
            raise _missing("a window", error, "gymnasium-window") from None
        self._pygame = pygame
        self._clock = pygame.time.Clock()
        self._title = title
        self._screen: Any = None

    def show(self, board: NDArray[np.uint8]) -> None:
        """Show a board `[16]`, then wait so that each second shows at most `FRAMES_PER_SECOND` boards.

        Raises:
            DependencyNotInstalled: Pillow is not installed.
        """
        pygame = self._pygame
        pixels = pixels_of(board)
        height, width, _ = pixels.shape
        if self._screen is None:
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode((width, height))
        self._screen.blit(pygame.image.frombuffer(pixels.tobytes(), (width, height), "RGB"), (0, 0))
        pygame.event.pump()  # otherwise the desktop reports that the window does not respond
        pygame.display.flip()
        self._clock.tick(FRAMES_PER_SECOND)

    def next_key(self, title: str) -> str | None:
        """Show a title, wait for a key and return its name in pygame; None if the window is closed."""
        pygame = self._pygame
        pygame.display.set_caption(title)
        while True:
            event = pygame.event.wait()
            if event.type == pygame.QUIT:
                return None
            if event.type == pygame.KEYDOWN:
                return str(pygame.key.name(event.key))

    def close(self) -> None:
        """Close the window if it is open."""
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None


def _missing(what: str, error: ModuleNotFoundError, extra: str) -> Exception:
    package = {"PIL": "Pillow", "pygame": "pygame-ce"}.get(error.name or "", error.name)
    message = f"{what} need{'s' * what.startswith('a ')} {package}: run {install_command(extra)}"
    return gymnasium.error.DependencyNotInstalled(message)
