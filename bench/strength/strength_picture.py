"""Makes docs/strength.png, the picture at the top of the README: `python bench/strength/strength_picture.py`.

The left panel shows the eight views of one board, each with the move that the network chooses there. The
right panel shows the share of games in which each shipped model reaches each tile. Its figures come from the
model cards, which name the command that measured them.
"""

from __future__ import annotations

import argparse
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import onnxruntime
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, MOVE
from octofold_game.contract.model import Card, Strength
from octofold_game.drawing.figures import DOTS_PER_INCH, percents, styled, write_above
from octofold_game.drawing.palette import SERIES, TILE_COLORS, TILE_TEXT
from octofold_game.rules import MOVE_NAMES
from octofold_game.symmetries import CELLS, MOVES
from octofold_game.system.files import atomic_write
from octofold_server.backends.onnx_session import APPENDED_VIEWS
from octofold_server.backends.onnx_views import appended_views
from PIL import Image
from table import measured

ROOT = Path(__file__).parents[2]
BOARD = "210022102453e986"
"""A board of a game of `flagship`, on which its views disagree."""
GRAPH = "flagship/5/model.int8.onnx"
"""The graph whose views the picture shows."""
SMALLEST_TILE = 1024
_INCHES = (11.0, 4.4)
_BOARD_COLOR, _CELL_COLOR = "#e6e2d9", "#f2efe8"
_LETTERS = (8.5, 7.6, 6.0, 4.8, 4.0)
"""Font size of a tile's number, by its number of digits."""
_STEPS = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))
"""Directions of up, right, down and left. The y axis points up."""


def main() -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "strength.png", metavar="FILE")
    options = parser.parse_args()
    models = ROOT / "models"
    board = np.array([int(digit, 16) for digit in BOARD], np.uint8)
    choices, move = choices_of(models / GRAPH, board)
    with styled():
        figure = picture(board, choices, GRAPH.partition("/")[0], measured(models))
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    # 200 colors are enough for flat areas, and a third of the bytes.
    with Image.open(file) as drawn:
        small = drawn.convert("RGB").quantize(200, dither=Image.Dither.NONE)
    with atomic_write(options.out) as partial:
        small.save(partial, format="png", optimize=True)
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} kB")
    print(json.dumps({"benchmark": "strength_picture", "move": move, "choices": choices.tolist()}))


def choices_of(graph: Path, board: NDArray[np.uint8]) -> tuple[NDArray[np.intp], int]:
    """Return the moves `[8]` that the views choose, as moves on the board, and the model's move."""
    content = graph.read_bytes()
    session = onnxruntime.InferenceSession(content + appended_views(content, 1.0))
    views, moves = session.run([APPENDED_VIEWS, MOVE.name], {BOARDS.name: board[None]})
    choices: NDArray[np.intp] = views[0].argmax(axis=1)
    return choices, int(moves[0])


def picture(
    board: NDArray[np.uint8], choices: NDArray[np.intp], name: str, cards: list[tuple[Card, Strength]]
) -> Figure:
    """Return the picture of both panels."""
    figure = Figure(figsize=_INCHES, facecolor="white")
    votes = np.bincount(choices, minlength=4)
    winner = int(votes.argmax())
    _title(figure, 0.02, "Eight views of one board vote on each move")
    said = (
        f"{name}: turned back, {votes[winner]} arrows mean {MOVE_NAMES[winner]} (green), "
        f"{8 - votes[winner]} another move (orange)"
    )
    figure.text(0.02, 0.875, said, va="top", fontsize=9.5, alpha=0.8)
    for view in range(8):
        row, column = divmod(view, 4)
        axes = figure.add_axes((0.008 + 0.121 * column, 0.42 - 0.4 * row, 0.12, 0.38))
        move = int(MOVES[view, choices[view]])
        _view(axes, board[CELLS[view]], move, agrees=bool(choices[view] == winner))
    _title(figure, 0.53, "How many games reach each tile")
    *fewer, most = (f"{games:,}" for games in sorted({strength.games for _, strength in cards}))
    said = f"{', '.join(fewer)}{' or ' if fewer else ''}{most} full games per model; 95% intervals"
    figure.text(0.53, 0.875, said, va="top", fontsize=9.5, alpha=0.8)
    _reached(figure.add_axes((0.575, 0.13, 0.41, 0.71)), cards)
    return figure


def _title(figure: Figure, left: float, text: str) -> None:
    figure.text(left, 0.965, text, va="top", fontsize=14, fontweight="bold")


def _view(axes: Axes, cells: NDArray[np.uint8], move: int, *, agrees: bool) -> None:
    """Draw a board with the arrow of a move beside it."""
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-0.62, 4.62)
    axes.set_ylim(-0.62, 4.62)
    color = SERIES[2] if agrees else SERIES[1]
    axes.add_patch(_rounded((-0.12, -0.12), 4.24, _BOARD_COLOR, color))
    for cell, exponent in enumerate(cells.tolist()):
        row, column = divmod(cell, 4)
        place = (column + 0.07, 3 - row + 0.07)
        axes.add_patch(_rounded(place, 0.86, TILE_COLORS[exponent - 1] if exponent else _CELL_COLOR, "none"))
        if exponent:
            text = f"{1 << exponent}"
            axes.text(
                column + 0.5,
                3.47 - row,
                text,
                ha="center",
                va="center",
                fontweight="bold",
                fontsize=_LETTERS[len(text) - 1],
                color=TILE_TEXT[exponent - 1],
            )
    across, up = _STEPS[move]
    tip, base = 2.62, 2.16
    corners = [
        (2 + tip * across, 2 + tip * up),
        (2 + base * across + 0.5 * up, 2 + base * up + 0.5 * across),
        (2 + base * across - 0.5 * up, 2 + base * up - 0.5 * across),
    ]
    axes.add_patch(Polygon(corners, facecolor=color, linewidth=0))


def _rounded(corner: tuple[float, float], edge: float, color: str, line: str) -> FancyBboxPatch:
    style = "round,pad=0,rounding_size=0.1"
    return FancyBboxPatch(corner, edge, edge, boxstyle=style, facecolor=color, edgecolor=line, linewidth=1.6)


def _reached(axes: Axes, cards: list[tuple[Card, Strength]]) -> None:
    tiles = sorted(
        {
            row.tile
            for _, strength in cards
            for row in strength.reached
            if row.share and row.tile >= SMALLEST_TILE
        }
    )
    for number, (card, strength) in enumerate(cards):
        reached = {row.tile: row for row in strength.reached}
        rows = [reached[tile] for tile in tiles if tile in reached]
        shares = np.array([row.share for row in rows])
        low, high = np.array([row.interval for row in rows]).T
        places = np.arange(len(rows)) + 0.06 * (number - (len(cards) - 1) / 2)
        axes.errorbar(
            places,
            shares,
            np.maximum(0.0, [shares - low, high - shares]),
            fmt="o-",
            color=SERIES[number],
            linewidth=2,
            markersize=5,
            elinewidth=1.2,
            capsize=2.5,
            label=f"{card.name}: {strength.average:,.0f} points on average, {_size(card.weights)}",
        )
        if number == 0:
            for place, share, top in zip(places.tolist(), shares.tolist(), high.tolist(), strict=True):
                if share >= 0.005:
                    write_above(axes, f"{share:.0%}", place, top)
    axes.set_ylim(0, 1.65)
    axes.set_yticks(np.linspace(0, 1, 6))
    percents(axes)
    axes.set_xlim(-0.5, len(tiles) - 0.5)
    axes.set_xticks(range(len(tiles)), [f"{tile}" for tile in tiles], fontsize=8.5, fontweight="bold")
    for tile, label in zip(tiles, axes.get_xticklabels(), strict=True):
        exponent = tile.bit_length() - 2
        label.set_color(TILE_TEXT[exponent])
        label.set_bbox(
            {"facecolor": TILE_COLORS[exponent], "edgecolor": "none", "boxstyle": "round,pad=0.45"}
        )
    axes.tick_params(axis="x", length=0, pad=10)
    axes.spines["left"].set_bounds(0, 1)
    axes.grid(axis="y")
    axes.legend(loc="upper right", borderaxespad=0, fontsize=8, labelspacing=0.3)


def _size(weights: int) -> str:
    if not weights:
        return "a search"
    return f"{weights / 1e6:.1f} million weights" if weights >= 1e6 else f"{weights / 1e3:.0f},000 weights"


if __name__ == "__main__":
    main()
