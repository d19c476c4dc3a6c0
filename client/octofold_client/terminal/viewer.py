"""The screen of the replay viewer: the current position, the effect of keys, and the drawing.

`cli/replay.py` connects it to the file, the terminal and the server.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import MOVE_NAMES
from rich.console import Group
from rich.table import Table
from rich.text import Text

from octofold_client.analysis.trajectories import Walk
from octofold_client.rpc.answers import NextMove

Thought = NextMove | str | None
"""The model's answer, the message of an error, or None if no model is asked."""
SPEEDS = (1, 2, 5, 10, 20, 50, 100)
"""Moves per second of the autoplay."""
_PAGE = 100
_ARROWS = ("↑", "→", "↓", "←")
_BAR = 24
_CELL = 8
_KEYS = "←/→ move   PgUp/PgDn 100   Home/End   number Enter: jump   space: play   +/-: speed   q: quit"
_EMPTY, _HIGH = "on #3a352f", "bold #f9f6f2 on #2b2b2b"
_TILES = {
    1: "#776e65 on #eee4da",
    2: "#776e65 on #ede0c8",
    3: "#f9f6f2 on #f2b179",
    4: "#f9f6f2 on #f59563",
    5: "#f9f6f2 on #f67c5f",
    6: "#f9f6f2 on #f65e3b",
    7: "#776e65 on #edcf72",
    8: "#776e65 on #edcc61",
    9: "#776e65 on #edc850",
    10: "#776e65 on #edc53f",
    11: "#f9f6f2 on #c89a1b",
}


@dataclass
class Cursor:
    """The current position in a game of `last` moves, and the state of the autoplay."""

    last: int
    at: int = 0
    """Number of moves made before the current position, 0 to `last`."""
    playing: bool = False
    speed: int = SPEEDS.index(5)
    """Index into `SPEEDS`."""
    typed: str = field(default="", init=False)
    """Typed digits of a jump; Enter makes the jump."""
    left: bool = field(default=False, init=False)
    """Whether the viewer must end."""

    @property
    def pause_seconds(self) -> float | None:
        """Time until the autoplay's next move; None if it is off."""
        return 1 / SPEEDS[self.speed] if self.playing else None

    def advance(self) -> None:
        """Go one move forward, and stop the autoplay at the end."""
        self._go(self.at + 1)
        self.playing = self.at < self.last

    def press(self, key: str) -> None:
        """Apply a key; unknown keys do nothing."""
        if key.isdecimal():
            self.typed += key
            return
        typed, self.typed = self.typed, ""
        match key:
            case "\n" | "\r" if typed:
                # int() refuses thousands of digits, and no game has so many moves.
                self._stop_at(int(typed[:12]))
            case "right" | "l" | "n":
                self._stop_at(self.at + 1)
            case "left" | "h" | "p":
                self._stop_at(self.at - 1)
            case "page down":
                self._stop_at(self.at + _PAGE)
            case "page up":
                self._stop_at(self.at - _PAGE)
            case "home":
                self._stop_at(0)
            case "end":
                self._stop_at(self.last)
            case " ":
                self.playing = not self.playing and self.at < self.last
            case "+" | "up":
                self.speed = min(self.speed + 1, len(SPEEDS) - 1)
            case "-" | "down":
                self.speed = max(self.speed - 1, 0)
            case "q":
                self.left = True

    def _stop_at(self, move: int) -> None:
        self.playing = False
        self._go(move)

    def _go(self, move: int) -> None:
        self.at = min(max(move, 0), self.last)


def draw(title: str, walk: Walk, cursor: Cursor, thought: Thought) -> Group:
    """The screen: the board, the position, the move that was made, and the model's answer."""
    made = None if cursor.at == cursor.last else int(walk.moves[cursor.at])
    coming = "the game is over" if made is None else f"next {_ARROWS[made]} {MOVE_NAMES[made]}"
    where = Text.assemble(
        ("move ", "dim"),
        (f"{cursor.at:,}", "bold"),
        (f" of {cursor.last:,}   score ", "dim"),
        (f"{walk.scores[cursor.at]:,}", "bold"),
        (f"   {coming}", "cyan"),
    )
    pace = f"{'playing at ' if cursor.playing else ''}{SPEEDS[cursor.speed]} moves/s"
    side = [where, Text(f"jump to {cursor.typed}" if cursor.typed else pace, style="dim"), Text()]
    if isinstance(thought, str):
        side.append(Text(thought, style="red"))
    elif thought is not None:
        side.append(Text(f"{thought.model} version {thought.version}", style="bold"))
        side += _opinions(thought, made)
    screen = Table.grid(padding=(0, 3, 0, 0))
    screen.add_row(_board(walk.boards[cursor.at]), Group(*side))
    return Group(Text(title, style="bold"), Text(), screen, Text(), Text(_KEYS, style="dim"))


def _board(board: NDArray[np.uint8]) -> Table:
    cells = [
        Text(f"\n{f'{1 << exponent}' if exponent else '':^{_CELL}}\n", style=_style(exponent))
        for exponent in board.tolist()
    ]
    table = Table.grid(padding=(0, 1, 1, 0))
    for row in range(0, 16, 4):
        table.add_row(*cells[row : row + 4])
    return table


def _style(exponent: int) -> str:
    return f"bold {_TILES[exponent]}" if exponent in _TILES else (_HIGH if exponent else _EMPTY)


def _opinions(thought: NextMove, made: int | None) -> list[Text]:
    """A line for each move: probability, votes, whether the model chooses it, and whether it was made."""
    lines = []
    for move, name in enumerate(MOVE_NAMES):
        share, votes = float(thought.probabilities[move]), int(thought.votes[move])
        marks = ["its choice"] * (move == thought.move) + ["made"] * (move == made)
        lines.append(
            Text.assemble(
                f"{_ARROWS[move]} {name:<5} {share:>6.1%} ",
                (f"{'█' * round(share * _BAR):<{_BAR}}", "yellow"),
                f" {votes} vote{' ' if votes == 1 else 's'}  ",
                (", ".join(marks), "cyan"),
            )
        )
    return lines
