"""The views of a board that a network sees: eight, or a part of them that is closed under composition.

Two views are the board and the board upside down, which looks at the opposite corner; four are its rotations.
Since each set is a subgroup of the eight symmetries, turning a board by one of them permutes the views and so
turns the answer.
"""

from __future__ import annotations

from octofold_game.symmetries import CELLS

VIEWS: dict[int, tuple[int, ...]] = {8: tuple(range(len(CELLS))), 4: (0, 1, 2, 3), 2: (0, 2), 1: (0,)}
"""By their number, the symmetries (rows of `octofold_game.symmetries.CELLS`) under which a board is seen."""
