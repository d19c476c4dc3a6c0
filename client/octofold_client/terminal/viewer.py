"""The screen of the replay viewer: the current position, the effect of keys, and the drawing.

`cli/replay.py` connects it to the file, the terminal and the server.
"""

from dataclasses import dataclass, field

from octofold_game.rules import MOVE_NAMES
from octofold_game.trajectories import Walk
from rich.console import Group
from rich.text import Text

from octofold_client.contenders.advice import Thought
from octofold_client.terminal.boards import ARROWS, Look, board_picture, one_line, opinion, remark, with_board

SPEEDS = (1, 2, 5, 10, 20, 50, 100)
"""Moves per second of the autoplay."""
_PAGE = 100
_KEYS = "←/→ move   q: quit   ?: help   space: play   d/D: disagreement   c/C: mistake   g/G: game"
_HELP = (
    ("← →", "one move back, one move on"),
    ("PgUp PgDn", "100 moves"),
    ("Home End", "the first and the last position"),
    ("N Enter", "jump to move N"),
    ("space", "play, or stop"),
    ("+ -", "play faster, slower"),
    ("d D", "next, previous move that the adviser would not make"),
    ("c C", "next, previous mistake: a move that costs 1,000 points or more, or 1% chance of success"),
    ("g G", "next, previous game"),
    ("q", "quit"),
)
_OPINION_LINES = 5


@dataclass
class Cursor:
    """The current position in a game of `last` moves, the state of the autoplay, and what is wanted next."""

    last: int
    at: int = 0
    """Number of moves made before the current position, 0 to `last`."""
    playing: bool = False
    speed: int = SPEEDS.index(5)
    """Index into `SPEEDS`."""
    seeking: int = 0
    """1 while the next disagreement or mistake is looked for, -1 while the one before is."""
    wants_mistake: bool = False
    """Whether a mistake is looked for, and not a disagreement."""
    help: bool = False
    """Whether the keys are explained in place of the adviser's opinion."""
    sought_from: int = 0
    """Where the search began."""
    note: str = ""
    """What the last key led to, if the screen does not show it otherwise."""
    typed: str = field(default="", init=False)
    """Typed digits of a jump; Enter makes the jump."""
    other_game: int = field(default=0, init=False)
    """1 if the next game is wanted, -1 if the one before is."""
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
        """Apply a key; unknown keys only end what is under way."""
        self.seeking, self.other_game, self.note = 0, 0, ""
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
            case "d" | "D" | "c" | "C":
                self._stop_at(self.at)
                self.sought_from = self.at
                self.wants_mistake = key in "cC"
                self.seeking = 1 if key in "dc" else -1
            case "?":
                self.help = not self.help
            case "g" | "G":
                self._stop_at(self.at)
                self.other_game = 1 if key == "g" else -1
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
    said = _help(look) if cursor.help else _opinion(thought, made, look)
    text = [*_state(walk, cursor, made, look), *said]
    return with_board(board_picture(walk.boards[cursor.at], look), text, look, title, _KEYS)


def _state(walk: Walk, cursor: Cursor, made: int | None, look: Look) -> list[Text]:
    where = Text.assemble(("move ", "dim"), (f"{cursor.at:,}", "bold"), (f" of {cursor.last:,}", "dim"))
    score = Text.assemble(("score ", "dim"), (f"{walk.scores[cursor.at]:,}", "bold"))
    coming = "the game is over" if made is None else f"next {ARROWS[made]} {MOVE_NAMES[made]}"
    parts = [where, score, Text(coming, "cyan" if look.colors else "bold")]
    pace = f"{'playing at ' if cursor.playing else ''}{SPEEDS[cursor.speed]} moves/s"
    if cursor.typed:
        pace = f"jump to {cursor.typed}"
    note = Text(cursor.note, "yellow" if look.colors else "bold") if cursor.note else Text(pace, "dim")
    if look.beside:
        return [*parts, note]
    # Below a board, lines are rare: the pace is told only while something happens.
    line = Text("   ").join(parts)
    if line.cell_len > look.columns:
        arrow = "over" if made is None else ARROWS[made]
        line = one_line(f"{cursor.at:,}/{cursor.last:,}  {arrow}  {walk.scores[cursor.at]:,} points")
    return [line, note] if cursor.note or cursor.typed or cursor.playing else [line]


def _help(look: Look) -> list[Text]:
    blank = [Text()] if look.tall else []
    return [*blank, *(Text.assemble((f"{keys:<10}", "bold"), effect) for keys, effect in _HELP)]


def _opinion(thought: Thought, made: int | None, look: Look) -> list[Text]:
    if thought is None:
        return []
    blank = [Text()] if look.tall else []
    if isinstance(thought, str):
        return [*blank, Text(thought, "red" if look.colors else "bold")]
    if made is not None and not look.beside and look.lines - look.board_lines < _OPINION_LINES + 2:
        return [one_line(remark(thought, made))]
    unit = "" if thought.shares or not thought.unit else f", {thought.unit}"
    name = f"{thought.adviser}{unit}"
    title = Text(name, "bold") if look.tall else one_line(name, "bold")
    return [*blank, title, *opinion(thought, made, look)]
