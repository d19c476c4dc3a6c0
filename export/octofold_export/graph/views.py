"""The views of a board that a network evaluates: all eight symmetries, or a subgroup of them.

Two views are the board and its 180 degree rotation, and four are its rotations. Each set is a subgroup of the
eight symmetries. Therefore turning a board by one of them permutes the views, and turns the answer.
"""

from __future__ import annotations

from octofold_game.symmetries import CELLS

VIEWS: dict[int, tuple[int, ...]] = {8: tuple(range(len(CELLS))), 4: (0, 1, 2, 3), 2: (0, 2), 1: (0,)}
"""The symmetries (rows of `octofold_game.symmetries.CELLS`) of the views, by the number of views."""
