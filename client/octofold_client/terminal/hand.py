"""The screen of a game by hand: the game with all its positions, the effect of keys, and the drawing.

`cli/hand.py` connects it to the files, the terminal and the adviser.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES, legal_moves
from octofold_game.trajectories import Walk
from rich.console import Group
from rich.text import Text

from octofold_client.contenders.advice import Advice, Thought
from octofold_client.terminal import keyboard
from octofold_client.terminal.boards import ARROWS, Look, board_picture, opinion, remark, with_board

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
        """`[16]`: the present board."""
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
    def made(self) -> tuple[NDArray[np.uint8], int] | None:
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
    """The game on the screen, and what the player has asked for."""

    game: HandGame
    hint: bool = False
    """Whether the adviser's opinion of the present board is shown."""
    help: bool = field(default=False, init=False)
    """Whether the keys are listed."""
    suspended: bool = field(default=False, init=False)
    """Whether the player wants to go back to the shell for a while."""
    message: str = field(default="", init=False)
    left: bool = field(default=False, init=False)
    """Whether the player wants to leave."""
    another: bool = field(default=False, init=False)
    """Whether the player wants a new game."""

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
                self.another = True
            case "t":
                self.hint = not self.hint
            case keyboard.SUSPEND:
                self.suspended = True
            case "q":
                self.left = True


def draw(hand: Hand, look: Look, now: Thought, before: Thought, *, asked: bool) -> Group:
    """The screen.

    Args:
        hand: the game.
        look: the terminal.
        now: what the adviser thinks of the present board, if it was asked for a hint.
        before: what it thinks of the board before the last move.
        asked: whether there is an adviser.
    """
    game = hand.game
    text = [*_state(game), *(_help(asked=asked) if hand.help else _thoughts(hand, look, now, before))]
    if hand.message:
        text.append(Text(hand.message, "yellow" if look.colors else "bold"))
    picture = board_picture(game.board, look, game.new_cell)
    return with_board(picture, text, look, _keys(asked=asked))


def _state(game: HandGame) -> list[Text]:
    state = Text.assemble("score ", (f"{game.score:,}", "bold"), "   largest tile ")
    state.append(f"{1 << int(game.board.max()):,}", "bold")
    where = Text(f"game {game.number}, move {game.moves:,}", "dim")
    if game.over:
        return [state, where, Text("The game is over. n: new game, u: undo", "bold")]
    legal = "  ".join(f"{ARROWS[move]} {name}" for move, name in enumerate(MOVE_NAMES) if game.legal[move])
    return [state, where, Text(f"legal: {legal}")]


def _thoughts(hand: Hand, look: Look, now: Thought, before: Thought) -> list[Text]:
    lines = [Text()] if look.tall else []
    if isinstance(before, Advice) and hand.game.made is not None:
        lines.append(Text(remark(before, hand.game.made[1])))
    if isinstance(now, Advice) and not hand.game.over:
        unit = "" if now.shares or not now.unit else f", {now.unit}"
        lines += [Text(f"{now.adviser}{unit}", "bold"), *opinion(now, None, look)]
    errors = dict.fromkeys(thought for thought in (now, before) if isinstance(thought, str))
    return lines + [Text(error, "red" if look.colors else "bold") for error in errors]


def _help(*, asked: bool) -> list[Text]:
    hints = ["t: show or hide hints"] if asked else []
    keys = ["arrows, WASD, HJKL: move", "u, Backspace: undo", "n: new game", *hints, "q, Ctrl-C: quit"]
    return [Text(line) for line in (*keys, "Ctrl-Z: back to the shell")]


def _keys(*, asked: bool) -> str:
    hint = "   t: hints" if asked else ""
    # The way out comes first, and so is seen on the narrowest terminal.
    return f"q: quit   u: undo   n: new game{hint}   ?: keys"
