"""The screen of the replay viewer: the current position, the effect of keys, and the drawing.

`cli/replay.py` connects it to the file, the terminal and the server.
"""

from dataclasses import dataclass, field

from octofold_game.rules import MOVE_NAMES
from rich.console import Group
from rich.text import Text

from octofold_client.analysis.trajectories import Walk
from octofold_client.contenders.advice import Advice
from octofold_client.terminal.boards import ARROWS, Look, board_picture, opinion, with_board

Thought = Advice | str | None
"""The answer of a model or player, the message of an error, or None if none is asked."""
SPEEDS = (1, 2, 5, 10, 20, 50, 100)
"""Moves per second of the autoplay."""
_PAGE = 100
_KEYS = "←/→ move   PgUp/PgDn 100   Home/End   number Enter: jump   space: play   +/-: speed   q: quit"


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


def draw(title: str, walk: Walk, cursor: Cursor, thought: Thought, look: Look) -> Group:
    """The screen: the board, the position, the move that was made, and the model's answer."""
    made = None if cursor.at == cursor.last else int(walk.moves[cursor.at])
    coming = "the game is over" if made is None else f"next {ARROWS[made]} {MOVE_NAMES[made]}"
    where = Text.assemble(
        ("move ", "dim"),
        (f"{cursor.at:,}", "bold"),
        (f" of {cursor.last:,}   score ", "dim"),
        (f"{walk.scores[cursor.at]:,}", "bold"),
        (f"   {coming}", "cyan"),
    )
    pace = f"{'playing at ' if cursor.playing else ''}{SPEEDS[cursor.speed]} moves/s"
    text = [where, Text(f"jump to {cursor.typed}" if cursor.typed else pace, style="dim"), Text()]
    if isinstance(thought, str):
        text.append(Text(thought, style="red"))
    elif thought is not None:
        unit = "" if thought.shares or not thought.unit else f", {thought.unit}"
        text += [Text(f"{thought.adviser}{unit}", style="bold"), *opinion(thought, made, look)]
    return with_board(board_picture(walk.boards[cursor.at], look), text, look, title, _KEYS)
