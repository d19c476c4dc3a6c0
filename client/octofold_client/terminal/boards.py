"""Draws a board, and an adviser's opinion of its moves, for terminals of any width and number of colors."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Self

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.palette import EMPTY_ON_DARK, color_of
from octofold_game.rules import MOVE_NAMES
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from octofold_client.contenders.advice import Advice
from octofold_client.contenders.judges import SUCCESS

ARROWS = ("↑", "→", "↓", "←")
_TALL_CELL, _SMALL_CELL, _SMALLEST_CELL = 8, 8, 6
"""Widths; the largest tile has six digits."""
_SIDE_BY_SIDE = 78
"""Columns for a board of tall cells and an opinion beside it."""
_TALL = 22
"""Lines for a board of tall cells, and a few lines above and below."""
_LOW = 11
"""With fewer lines, the rows of a board have no lines between them."""
_SMALLEST = (29, 7)
"""Columns and lines for a low board of the smallest cells, and a line below."""
_GAP = 3
"""Columns between a board and the text beside it."""
_LONGEST_BAR = 20
_WIDEST_MARKS = len("its choice, made")
_NEW = "red"

_FEW_COLORS = {
    1: "black on white",
    2: "black on white",
    3: "black on yellow",
    4: "black on yellow",
    5: "white on red",
    6: "white on red",
    7: "black on cyan",
    8: "black on cyan",
    9: "black on green",
    10: "black on green",
    11: "white on magenta",
}
"""The nearest of sixteen colors would make some numbers as bright as their tiles."""
_FEW_HIGH = "white on blue"


@dataclass(frozen=True)
class Look:
    """How much room a terminal has, and how many colors."""

    columns: int
    lines: int
    colors: str | None
    """`standard` (16 colors), `256`, `truecolor`, or None for no colors."""

    @classmethod
    def of(cls, console: Console) -> Self:
        """The look of the terminal that `console` writes to, at its present size."""
        colors = None if console.no_color else console.color_system
        return cls(console.width, console.height, colors)

    @property
    def beside(self) -> bool:
        """Whether there is room for text beside a board."""
        return self.columns >= _SIDE_BY_SIDE

    @property
    def tall(self) -> bool:
        """Whether cells are three lines high."""
        return self.beside and self.lines >= _TALL

    @property
    def low(self) -> bool:
        """Whether there is no room for lines between the rows of a board."""
        return self.lines < _LOW

    @property
    def board_lines(self) -> int:
        """The height of a board."""
        return 17 if self.tall else 6 if self.low else 9

    @property
    def too_small(self) -> bool:
        """Whether not even a board fits."""
        return self.columns < _SMALLEST[0] or self.lines < _SMALLEST[1]

    @property
    def cell_columns(self) -> int:
        """The width of a cell."""
        if self.tall:
            return _TALL_CELL
        return _SMALL_CELL if self.columns > 4 * _SMALL_CELL + 5 else _SMALLEST_CELL

    @property
    def board_columns(self) -> int:
        """The width of a board."""
        return 4 * self.cell_columns + 5

    @property
    def text_columns(self) -> int:
        """The width of the text beside a board, or below it."""
        return self.columns - self.board_columns - _GAP if self.beside else self.columns


def board_picture(board: NDArray[np.uint8], look: Look, new_cell: int | None = None) -> Table:
    """The board, with lines around all cells; the tile in `new_cell` is put in brackets, and red."""
    table = Table(box=box.SQUARE, show_header=False, show_lines=not look.low, padding=0, pad_edge=False)
    for _ in range(4):
        table.add_column(width=look.cell_columns, no_wrap=True)
    cells = [_cell(int(exponent), look, cell == new_cell) for cell, exponent in enumerate(board)]
    for row in range(0, 16, 4):
        table.add_row(*cells[row : row + 4])
    return table


def _cell(exponent: int, look: Look, new: bool) -> Text:
    number = f"{1 << exponent}" if exponent else ""
    shown = f"[{number}]" if new else number
    line = f"{shown:^{look.cell_columns}}"
    blank = " " * look.cell_columns  # as wide as the cell, so that its color fills it
    text = Text(f"{blank}\n{line}\n{blank}" if look.tall else line, style=_style(exponent, look.colors))
    if new and look.colors:
        start = text.plain.index(shown)
        text.stylize(_NEW, start, start + len(shown))
    return text


def _style(exponent: int, colors: str | None) -> str:
    if colors is None:
        return "bold" if exponent else ""
    if colors == "standard":
        return f"bold {_FEW_COLORS.get(exponent, _FEW_HIGH)}" if exponent else ""
    if not exponent:
        return f"on {EMPTY_ON_DARK}"
    color = color_of(exponent, on_dark=True)  # as most terminals are
    return f"bold {color.text} on {color.background}"


def with_board(picture: Table, text: Sequence[Text], look: Look, keys: str) -> Group:
    """A screen that fits: a board, text beside or below it, and the keys.

    If there is too little room, keys are left out, then the last lines of the text.

    Args:
        picture: the board.
        text: the lines, the most important ones first.
        look: the terminal.
        keys: the keys, the most important ones first, with three spaces between two of them.
    """
    if look.too_small:
        return Group(Text("The terminal needs {} columns and {} lines.".format(*_SMALLEST)))
    room = look.lines - look.board_lines
    lines = _wrapped(keys.split("   "), look.columns)
    if look.beside:
        kept = _fitting(text, look.text_columns, max(look.board_lines, look.lines - len(lines)))
        room = min(room, look.lines - _heights(kept, look.text_columns))
    else:
        # At least one line for the keys, if there are two.
        kept = _fitting(text, look.columns, max(1, room - 1))
        room -= _heights(kept, look.columns)
    lines = lines[:room]
    parts: list[RenderableType] = []
    if look.beside:
        screen = Table.grid(padding=(0, _GAP, 0, 0))
        screen.add_column(min_width=look.board_columns)
        screen.add_row(picture, Group(*kept))
        parts.append(screen)
    else:
        parts += [picture, *kept]
    return Group(*parts, *(Text(line, "dim", no_wrap=True, overflow="ellipsis") for line in lines))


def _wrapped(words: Sequence[str], columns: int) -> list[str]:
    """Lines of words with three spaces between two of them; a word is never broken."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 3 + len(word) <= columns:
            lines[-1] += f"   {word}"
        else:
            lines.append(word)
    return lines


def _fitting(text: Sequence[Text], columns: int, room: int) -> list[Text]:
    """The first lines that need at most `room` lines of a terminal."""
    kept = []
    for line in text:
        room -= _height(line, columns)
        if room < 0:
            break
        kept.append(line)
    return kept


def _heights(text: Sequence[Text], columns: int) -> int:
    return sum(_height(line, columns) for line in text)


def _height(line: Text, columns: int) -> int:
    return 1 if line.no_wrap else max(1, len(wrap(line.plain, columns)))


def opinion(advice: Advice, made: int | None, look: Look) -> list[Text]:
    """A line for each move: its value, its share of the views' votes, and whether it is chosen and made."""
    lines = []
    for move, name in enumerate(MOVE_NAMES):
        marks = ["its choice"] * (move == advice.choice) + ["made"] * (move == made)
        text = Text(f"{ARROWS[move]} {name:<5}")
        if advice.values is not None:
            text.append(f" {_value(advice, move)}")
        if advice.votes is not None:
            text.append(f" {_votes(advice, move)}")
        text.append(f" {', '.join(marks):<{_WIDEST_MARKS}}", "cyan" if look.colors else "bold")
        room = min(_LONGEST_BAR, look.text_columns - len(text) - 1)
        if advice.shares and advice.values is not None and room > 3:
            text.append(f" {'█' * round(float(advice.values[move]) * room)}", "yellow")
        lines.append(text)
    return lines


def remark(advice: Advice, made: int) -> str:
    """What the adviser thinks of a move, in a sentence that says the most important first."""
    move, better = (f"{ARROWS[each]} {MOVE_NAMES[each]}" for each in (made, advice.choice))
    if made == advice.choice:
        return f"{move}{_reason(advice, made)} is also the choice of {advice.adviser}."
    if advice.values is not None and not advice.shares:
        more = float(advice.values[advice.choice] - advice.values[made])
        if more > 0 and np.isfinite(more):  # it may not choose by its values alone
            worth = f"{more:.1%}" if advice.unit == SUCCESS else f"{more:,.1f}"
            return f"{better} is worth {worth} {advice.unit} more than {move}, says {advice.adviser}."
        return f"{better} is better than {move}, says {advice.adviser}."
    reasons = [_reason(advice, each) for each in (advice.choice, made)]
    return f"{better}{reasons[0]} is better than {move}{reasons[1]}, says {advice.adviser}."


def _reason(advice: Advice, move: int) -> str:
    """What speaks for a move, in parentheses."""
    if advice.votes is not None:
        return f" ({_votes(advice, move)} views)"
    if advice.values is None:
        return ""
    return f" ({_value(advice, move).strip()}{'' if advice.shares else ' ' + advice.unit})"


def _votes(advice: Advice, move: int) -> str:
    """The votes for a move, of all: "5/8"."""
    assert advice.votes is not None
    return f"{int(advice.votes[move])}/{int(advice.votes.sum())}"


def _value(advice: Advice, move: int) -> str:
    assert advice.values is not None
    value = float(advice.values[move])
    if advice.shares:
        return f"{value:>6.1%}"
    return f"{value:>12,.1f}" if np.isfinite(value) else f"{'-':>12}"
