"""Play 2048 by hand in a window, as in Schwenke and Cadman's notebook of 2023.

    python -m octofold_game.environments.by_hand

Arrows or WASD make a move, N begins a new game, and Q or Escape leaves. It needs the extra
`gymnasium-window`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import gymnasium

from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import Seed, option, read
from octofold_game.environments.rendering import Window
from octofold_game.environments.single import Game2048Env
from octofold_game.rules import MOVE_NAMES

_LETTERS = {"w": "up", "d": "right", "s": "down", "a": "left"}


@dataclass(frozen=True)
class Options:
    """Options of the command."""

    seed: Seed | None = option(
        None, "seed of the new tiles; equal seeds give equal tiles (default: a random one)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play until the window is closed, and return the exit code."""
    options = read(Options, Parser(prog="octofold_game.environments.by_hand", description=__doc__), arguments)
    try:
        window = Window("2048")
        play(window, options.seed)
    except gymnasium.error.DependencyNotInstalled as error:
        print(error, file=sys.stderr)
        return 1
    window.close()
    return 0


def play(window: Window, seed: int | None = None) -> None:
    """Play games of a seed (None: a random one), until the window is closed or left."""
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


if __name__ == "__main__":
    sys.exit(main())
