"""Marks on axes: by which score, and after how many moves, a game has typically made each tile.

A tile of exponent k that grew from 2s alone has brought (k - 1) * 2**k points. A tenth of the new tiles are
4s, which bring 2/11 of all that is on the board, and nobody gets points for them: on average
(k - 1 - 2/11) * 2**k. A move adds 2.2 to the sum of all tiles on average.
"""

from typing import Any

from matplotlib.axes import Axes
from octofold_game.drawing.figures import GRID, spaced
from octofold_game.drawing.palette import INK
from octofold_game.spawns import CHANCE_OF_FOUR

TILES = tuple(1 << exponent for exponent in range(6, 18))
_SHARE_OF_FOURS = 2 * CHANCE_OF_FOUR / (1 + CHANCE_OF_FOUR)
_SUM_PER_MOVE = 2 * (1 + CHANCE_OF_FOUR)


def score_at(tile: int) -> float:
    """The score by which a game has typically made a tile."""
    return (tile.bit_length() - 2 - _SHARE_OF_FOURS) * tile


def move_at(tile: int) -> float:
    """The number of moves by which a game has typically made a tile."""
    return tile / _SUM_PER_MOVE


def mark_scores(axes: Axes, note: bool = True) -> None:
    """Mark tiles along the top of an x axis of scores, whose limits must be set."""
    _mark_x(axes, [score_at(tile) for tile in TILES], note)


def mark_moves(axes: Axes) -> None:
    """Mark tiles along the top of an x axis of moves, whose limits must be set."""
    _mark_x(axes, [move_at(tile) for tile in TILES], True)


def mark_scores_upright(axes: Axes) -> None:
    """Mark tiles along the right of a y axis of scores, whose limits must be set."""
    low, high = axes.get_ylim()
    places = [score_at(tile) for tile in TILES]
    for index in spaced(places, 0.05 * (high - low), lambda index: low < places[index] < high):
        axes.axhline(places[index], color=INK, alpha=GRID, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.text(
            1.01,
            places[index],
            f"{TILES[index]}",
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize="small",
        )


def _label_share(axes: Axes) -> float:
    """The width of a label as a share of the width of the axes, about."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return 0.45 / figure.get_figwidth()


def _mark_x(axes: Axes, places: list[float], note: bool) -> None:
    low, high = axes.get_xlim()
    shown = spaced(
        places,
        _label_share(axes) * (high - low),
        lambda index: low + 0.03 * (high - low) < places[index] < high,
    )
    for index in shown:
        axes.axvline(places[index], color=INK, alpha=GRID, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        if note:
            _above(axes, f"{TILES[index]}", (places[index], 1.0), ("data", "axes fraction"), 2, ha="center")
    if note and shown:
        said = "tile that a game has usually made by then"
        _above(axes, said, (0.0, 1.0), "axes fraction", 15, alpha=0.75)


def _above(
    axes: Axes, text: str, place: tuple[float, float], system: Any, points: float, **style: Any
) -> None:
    """Text so many points above the axes, whatever their height."""
    axes.annotate(
        text,
        place,
        (0, points),
        xycoords=system,
        textcoords="offset points",
        va="bottom",
        fontsize="small",
        annotation_clip=False,
        **style,
    )
