"""Boards for the tests of players."""

import numpy as np
import pytest
from numpy.typing import NDArray


@pytest.fixture(scope="session")
def boards() -> NDArray[np.uint8]:
    """Return boards `[24, 16]`: crowded, finished, with one empty cell, and with tiles near the limit."""
    random = np.random.default_rng(6)
    boards = random.integers(1, 7, (24, 16)).astype(np.uint8)
    boards[random.random(boards.shape) < 0.2] = 0
    boards[0] = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]
    boards[1] = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 0]
    boards[2] = [15, 15, 3, 4, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]
    return boards
