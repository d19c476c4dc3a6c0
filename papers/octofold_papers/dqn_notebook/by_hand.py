"""A window in which a person plays 2048, as in Schwenke and Cadman's notebook of 2023."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import gymnasium
from octofold_game.environments.rendering import Window
from octofold_game.environments.single import Game2048Env
from octofold_game.rules import MOVE_NAMES

if TYPE_CHECKING:
    from octofold_papers.cli import WindowFlags

_LETTERS = {"w": "up", "d": "right", "s": "down", "a": "left"}


def play_in_a_window(flags: WindowFlags) -> int:
    """Let a person play games in a window until they quit, and return the exit code."""
    try:
        window = Window("2048")
        play(window, flags.seed)
    except gymnasium.error.DependencyNotInstalled as error:
        print(error, file=sys.stderr)
        return 1
    window.close()
    return 0


def play(window: Window, seed: int | None = None) -> None:
    """Let a person play games until they quit. `seed` determines the new tiles; None means a random seed."""
    environment = Game2048Env()
    observation, info = environment.reset(seed=seed)
    over = False
    while True:
        window.show(observation.reshape(16))
        key = window.next_key(f"2048: {info['score']:,}" + (", game over (N: new game)" if over else ""))
        if key in (None, "q", "escape"):
            return
        if key == "n":
            observation, info = environment.reset()
            over = False
        elif (move := _LETTERS.get(key, key)) in MOVE_NAMES and not over:
            observation, _, over, _, info = environment.step(MOVE_NAMES.index(move))
