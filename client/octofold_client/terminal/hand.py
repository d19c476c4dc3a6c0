"""A game by hand: all its positions, so that moves can be undone, and the effect of keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES, legal_moves
from octofold_game.trajectories import Walk

from octofold_client.terminal import keyboard

MOVE_KEYS = {
    **dict.fromkeys(("up", "w", "k"), 0),
    **dict.fromkeys(("right", "d", "l"), 1),
    **dict.fromkeys(("down", "s", "j"), 2),
    **dict.fromkeys(("left", "a", "h"), 3),
}
_BACKSPACES = ("\x7f", "\x08")
_END_OF_INPUT = "\x04"


class HandGame:
    """One game that a person plays, with every position so far, so that moves can be undone.

    The new tiles depend only on the seed, the game and the number of the move. The same move after an undo
    therefore brings the same tile.
    """

    def __init__(self, episode: Episode) -> None:
        """Continue a game."""
        self._episode = episode
        walk = Walk.of(episode)
        self._log = bytearray(episode.moves)
        self._boards: list[NDArray[np.uint8]] = list(walk.boards)
        self._scores: list[int] = walk.scores.tolist()

    @classmethod
    def new(cls, seed: int, game: int) -> HandGame:
        """Begin a game of a seed, with two tiles."""
        return cls(*Episodes(seed, [game]).unfinished())

    @property
    def episode(self) -> Episode:
        """The record of the game so far."""
        return replace(self._episode, moves=bytes(self._log), score=self.score, final_board=self.board)

    @property
    def number(self) -> int:
        """Index of the game among those of its seed."""
        return self._episode.game

    @property
    def board(self) -> NDArray[np.uint8]:
        """`[16]`: the current board."""
        return self._boards[-1]

    @property
    def score(self) -> int:
        """The score so far."""
        return self._scores[-1]

    @property
    def moves(self) -> int:
        """Number of moves made."""
        return len(self._log)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """`[4]`: which moves are legal."""
        boards = self.board[None]
        return legal_moves(boards).ravel() if boards.max() <= LARGEST_EXPONENT else np.zeros(4, bool)

    @property
    def over(self) -> bool:
        """Whether no move is legal."""
        return not self.legal.any()

    @property
    def last_move(self) -> tuple[NDArray[np.uint8], int] | None:
        """The board before the last move, and that move; None before the first."""
        return (self._boards[-2], self._log[-1] & 3) if self._log else None

    @property
    def new_cell(self) -> int | None:
        """The cell of the newest tile; None before the first move."""
        return self._log[-1] >> 2 & 15 if self._log else None

    def move(self, direction: int) -> bool:
        """Make a move, and return whether it was legal."""
        if not self.legal[direction]:
            return False
        running = Episodes(self._episode.seed, largest_exponent=self._episode.largest_exponent)
        running.resume([self.episode])
        (moved,) = running.step([direction]) or running.unfinished()
        self._log.append(moved.moves[-1])
        self._boards.append(moved.final_board)
        self._scores.append(moved.score)
        return True

    def undo(self) -> bool:
        """Take the last move back, and return whether there was one."""
        if not self._log:
            return False
        for history in (self._log, self._boards, self._scores):
            history.pop()
        return True


@dataclass
class Hand:
    """The game on the screen, and the requests of the person who plays."""

    game: HandGame
    hint: bool = False
    """Whether the adviser's opinion of the current board is shown."""
    help: bool = field(default=False, init=False)
    """Whether the keys are listed."""
    suspended: bool = field(default=False, init=False)
    """Whether the person pressed Ctrl-Z."""
    message: str = field(default="", init=False)
    quits: bool = field(default=False, init=False)
    """Whether the person wants to quit."""
    wants_new_game: bool = field(default=False, init=False)

    def press(self, key: str) -> None:
        """Apply a key; unknown keys do nothing."""
        self.message, self.help = "", key == "?" and not self.help
        key = key.lower()
        if key in MOVE_KEYS:
            direction = MOVE_KEYS[key]
            if not self.game.move(direction) and not self.game.over:
                self.message = f"{MOVE_NAMES[direction]} is not possible; try another direction"
            return
        match "u" if key in _BACKSPACES else "q" if key == _END_OF_INPUT else key:
            case "u":
                if not self.game.undo():
                    self.message = "there is no move to undo"
            case "n":
                self.wants_new_game = True
            case "t":
                self.hint = not self.hint
            case keyboard.SUSPEND:
                self.suspended = True
            case "q":
                self.quits = True
