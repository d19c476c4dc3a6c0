"""Draws a game by hand for a terminal: the board, what an adviser thinks of its moves, and the keys."""

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.palette import EMPTY_ON_DARK, color_of
from octofold_game.rules import MOVE_NAMES
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from octofold_client.contenders.advice import Advice, AdviceOrError
from octofold_client.terminal.hand import Hand, HandGame

ARROWS = ("↑", "→", "↓", "←")
_CELL = 8
"""Columns of a cell; the largest tile has six digits, and brackets when it is new."""
_COLUMNS, _LINES = 4 * _CELL + 5, 20
"""Room for a board and an opinion below it."""


def draw(
    hand: Hand, console: Console, now: AdviceOrError, before: AdviceOrError, *, has_adviser: bool
) -> Group:
    """The screen.

    Args:
        hand: the game.
        console: the terminal.
        now: the adviser's opinion of the current board, if it gives a hint.
        before: its opinion of the board before the last move.
        has_adviser: whether there is an adviser.
    """
    if console.width < _COLUMNS or console.height < _LINES:
        return Group(Text(f"The terminal needs {_COLUMNS} columns and {_LINES} lines."))
    game, hint = hand.game, "   t: hints" if has_adviser else ""
    lines = [*_state(game), *(_help() if hand.help else _opinions(hand, now, before))]
    if hand.message:
        lines.append(Text(hand.message, "bold yellow"))
    # The way out comes first, and so is seen on a narrow terminal.
    keys = f"q: quit   u: undo   n: new game{hint}   ?: keys"
    return Group(_picture(game, console), *lines, Text(keys, "dim", no_wrap=True, overflow="ellipsis"))


def _picture(game: HandGame, console: Console) -> Table:
    """The board; the new tile is put in brackets, and red."""
    # The nearest of sixteen colors would make some numbers as bright as their tiles.
    has_colors = console.color_system in ("256", "truecolor") and not console.no_color
    table = Table(box=box.SQUARE, show_header=False, show_lines=True, padding=0, pad_edge=False)
    for _ in range(4):
        table.add_column(width=_CELL, no_wrap=True)
    cells = []
    for cell, exponent in enumerate(game.board.tolist()):
        number = f"{1 << exponent}" if exponent else ""
        is_new = cell == game.new_cell
        shown = f"[{number}]" if is_new else number
        color = color_of(exponent, on_dark=True)  # as most terminals are
        style = f" {color.text} on {color.background}" if exponent else f" on {EMPTY_ON_DARK}"
        text = Text(f"{shown:^{_CELL}}", style=f"bold{style if has_colors else ''}")
        if is_new:
            text.highlight_words([shown], "red")
        cells.append(text)
    for row in range(0, 16, 4):
        table.add_row(*cells[row : row + 4])
    return table


def _state(game: HandGame) -> list[Text]:
    state = Text.assemble("score ", (f"{game.score:,}", "bold"), "   largest tile ")
    state.append(f"{1 << int(game.board.max()):,}", "bold")
    where = Text(f"game {game.number}, move {game.moves:,}", "dim")
    if game.over:
        return [state, where, Text("The game is over. n: new game, u: undo", "bold")]
    legal = "  ".join(f"{ARROWS[move]} {name}" for move, name in enumerate(MOVE_NAMES) if game.legal[move])
    return [state, where, Text(f"legal: {legal}")]


def _opinions(hand: Hand, now: AdviceOrError, before: AdviceOrError) -> list[Text]:
    lines = []
    if isinstance(before, Advice) and hand.game.last_move is not None:
        lines.append(Text(remark(before, hand.game.last_move[1])))
    if isinstance(now, Advice) and not hand.game.over:
        unit = "" if now.shares or not now.unit else f", {now.unit}"
        lines.append(Text(f"{now.adviser}{unit}", "bold"))
        for move, name in enumerate(MOVE_NAMES):
            text = Text(f"{ARROWS[move]} {name:<5} {_value(now, move)}")
            text.append(" its choice" if move == now.choice else "", "bold cyan")
            lines.append(text)
    errors = dict.fromkeys(thought for thought in (now, before) if isinstance(thought, str))
    return lines + [Text(error, "bold red") for error in errors]


def _help() -> list[Text]:
    keys = ["arrows, WASD, HJKL: move", "u, Backspace: undo", "n: new game", "t: show or hide hints"]
    return [Text(line) for line in (*keys, "q, Ctrl-C: quit", "Ctrl-Z: back to the shell")]


def remark(advice: Advice, made: int) -> str:
    """What the adviser thinks of a move, in a sentence."""
    move, better = (
        f"{ARROWS[each]} {MOVE_NAMES[each]} {_value(advice, each).strip()}".rstrip()
        for each in (made, advice.choice)
    )
    if made == advice.choice:
        return f"{advice.adviser} agrees with {move}"
    return f"{advice.adviser} prefers {better} to {move}"


def _value(advice: Advice, move: int) -> str:
    """The value of a move, and its share of the views' votes, such as "5/8"."""
    votes: NDArray[np.uint8] | None = advice.votes
    text = ""
    if advice.values is not None:
        value = float(advice.values[move])
        text = (
            f"{value:>6.1%}" if advice.shares else f"{value:>12,.1f}" if np.isfinite(value) else f"{'-':>12}"
        )
    return text if votes is None else f"{text} {int(votes[move])}/{int(votes.sum())}"
