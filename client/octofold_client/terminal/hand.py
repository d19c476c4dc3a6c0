"""A game by hand: its positions with undo, the effect of each key, and the screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.palette import EMPTY_ON_DARK, color_of
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES, legal_moves
from octofold_game.trajectories import Trajectory
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from octofold_client.contenders.judges import Advice, AdviceOrError
from octofold_client.terminal import keyboard

MOVE_KEYS = {
    **dict.fromkeys(("up", "w", "k"), 0),
    **dict.fromkeys(("right", "d", "l"), 1),
    **dict.fromkeys(("down", "s", "j"), 2),
    **dict.fromkeys(("left", "a", "h"), 3),
}
ARROWS = ("↑", "→", "↓", "←")
_CELL = 8
"""Width of a cell in columns. The largest tile has six digits, and two brackets when it is new."""
_COLUMNS, _LINES = 4 * _CELL + 5, 20
"""Minimum size of the terminal in columns and lines, for a board and an opinion below it."""
_BACKSPACES = ("\x7f", "\x08")
_END_OF_INPUT = "\x04"


class HandGame:
    """One game that a person plays, with every position so far, so that moves can be undone.

    The new tiles depend only on the seed, the game and the number of the move. The same move after an undo
    therefore brings the same tile.
    """

    def __init__(self, episode: Episode) -> None:
        """Continue a recorded game."""
        self._episode = episode
        walk = Trajectory.of(episode)
        self._log = bytearray(episode.moves)
        self._boards: list[NDArray[np.uint8]] = list(walk.boards)
        self._scores: list[int] = walk.scores.tolist()

    @classmethod
    def new(cls, seed: int, game: int) -> HandGame:
        """Begin the game with index `game` of a seed, with two tiles."""
        return cls(*Episodes(seed, [game]).unfinished())

    @property
    def episode(self) -> Episode:
        """The record of the game so far."""
        return replace(self._episode, moves=bytes(self._log), score=self.score, final_board=self.board)

    @property
    def number(self) -> int:
        """Index of the game among the games of its seed."""
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
        """Number of moves so far."""
        return len(self._log)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """`[4]`: whether each move is legal."""
        boards = self.board[None]
        return legal_moves(boards).ravel() if boards.max() <= LARGEST_EXPONENT else np.zeros(4, bool)

    @property
    def over(self) -> bool:
        """Whether no move is legal."""
        return not self.legal.any()

    @property
    def last_move(self) -> tuple[NDArray[np.uint8], int] | None:
        """The board before the last move, and the last move; None before the first move."""
        return (self._boards[-2], self._log[-1] & 3) if self._log else None

    @property
    def new_cell(self) -> int | None:
        """The cell of the new tile; None before the first move."""
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
        """Undo the last move; return False if no move was made."""
        if not self._log:
            return False
        for history in (self._log, self._boards, self._scores):
            history.pop()
        return True


@dataclass
class Hand:
    """The state of `octofold hand`: the game, the contents of the screen, and the person's requests."""

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
        """Apply a key. An unknown key only clears the message and the list of keys."""
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


def draw(
    hand: Hand, console: Console, now: AdviceOrError, before: AdviceOrError, *, has_adviser: bool
) -> Group:
    """Return the content of the screen.

    Args:
        hand: the state of the game and of the screen.
        console: the terminal.
        now: the adviser's opinion of the current board; None if it is not shown.
        before: the adviser's opinion of the board before the last move; None if it is not shown.
        has_adviser: whether there is an adviser.
    """
    if console.width < _COLUMNS or console.height < _LINES:
        return Group(Text(f"The terminal needs {_COLUMNS} columns and {_LINES} lines."))
    game, hint = hand.game, "   t: hints" if has_adviser else ""
    lines = [*_state_lines(game), *(_key_help() if hand.help else _opinion_lines(hand, now, before))]
    if hand.message:
        lines.append(Text(hand.message, "bold yellow"))
    # The key to quit comes first, so that a narrow terminal shows it.
    keys = f"q: quit   u: undo   n: new game{hint}   ?: keys"
    return Group(_board_picture(game, console), *lines, Text(keys, "dim", no_wrap=True, overflow="ellipsis"))


def _board_picture(game: HandGame, console: Console) -> Table:
    """Return the picture of the board. The new tile is red and in brackets."""
    # With only sixteen colors, some numbers would be as bright as their tiles.
    has_colors = console.color_system in ("256", "truecolor") and not console.no_color
    table = Table(box=box.SQUARE, show_header=False, show_lines=True, padding=0, pad_edge=False)
    for _ in range(4):
        table.add_column(width=_CELL, no_wrap=True)
    cells = []
    for cell, exponent in enumerate(game.board.tolist()):
        number = f"{1 << exponent}" if exponent else ""
        is_new = cell == game.new_cell
        shown = f"[{number}]" if is_new else number
        color = color_of(exponent, on_dark=True)  # for a dark background, which most terminals have
        style = f" {color.text} on {color.background}" if exponent else f" on {EMPTY_ON_DARK}"
        text = Text(f"{shown:^{_CELL}}", style=f"bold{style if has_colors else ''}")
        if is_new:
            text.highlight_words([shown], "red")
        cells.append(text)
    for row in range(0, 16, 4):
        table.add_row(*cells[row : row + 4])
    return table


def _state_lines(game: HandGame) -> list[Text]:
    state = Text.assemble("score ", (f"{game.score:,}", "bold"), "   largest tile ")
    state.append(f"{1 << int(game.board.max()):,}", "bold")
    where = Text(f"game {game.number}, move {game.moves:,}", "dim")
    if game.over:
        return [state, where, Text("The game is over. n: new game, u: undo", "bold")]
    legal = "  ".join(f"{ARROWS[move]} {name}" for move, name in enumerate(MOVE_NAMES) if game.legal[move])
    return [state, where, Text(f"legal: {legal}")]


def _opinion_lines(hand: Hand, now: AdviceOrError, before: AdviceOrError) -> list[Text]:
    lines = []
    if isinstance(before, Advice) and hand.game.last_move is not None:
        lines.append(Text(remark(before, hand.game.last_move[1])))
    if isinstance(now, Advice) and not hand.game.over:
        unit = "" if now.has_probabilities or not now.unit else f", {now.unit}"
        lines.append(Text(f"{now.adviser}{unit}", "bold"))
        for move, name in enumerate(MOVE_NAMES):
            text = Text(f"{ARROWS[move]} {name:<5} {_format_value(now, move)}")
            text.append(" its choice" if move == now.choice else "", "bold cyan")
            lines.append(text)
    errors = dict.fromkeys(thought for thought in (now, before) if isinstance(thought, str))
    return lines + [Text(error, "bold red") for error in errors]


def _key_help() -> list[Text]:
    keys = ["arrows, WASD, HJKL: move", "u, Backspace: undo", "n: new game", "t: show or hide hints"]
    return [Text(line) for line in (*keys, "q, Ctrl-C: quit", "Ctrl-Z: back to the shell")]


def remark(advice: Advice, made: int) -> str:
    """Return the adviser's opinion of the move `made`, in a sentence."""
    move, better = (
        f"{ARROWS[each]} {MOVE_NAMES[each]} {_format_value(advice, each).strip()}".rstrip()
        for each in (made, advice.choice)
    )
    if made == advice.choice:
        return f"{advice.adviser} agrees with {move}"
    return f"{advice.adviser} prefers {better} to {move}"


def _format_value(advice: Advice, move: int) -> str:
    """Format the value of a move and, if views voted, its votes, such as "5/8"."""
    text = ""
    if advice.values is not None:
        value = float(advice.values[move])
        number = f"{value:,.1f}" if np.isfinite(value) else "-"
        text = f"{value:>6.1%}" if advice.has_probabilities else f"{number:>12}"
    return text if advice.votes is None else f"{text} {advice.votes[move]}/{advice.votes.sum()}"
