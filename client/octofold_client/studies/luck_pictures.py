"""The luckiest and the unluckiest games as pictures: what their tiles and their moves did to the score.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure
from octofold_game.drawing.figures import Size, figure_of, styled, thinned, whole_numbers
from octofold_game.drawing.palette import INK, series_color
from octofold_game.episodes import Episode

from octofold_client.contenders.judges import Judge
from octofold_client.evaluation.luck import score_curve

_ROW_INCHES = 1.5


def luck_picture(games: Sequence[Episode], values: Judge, size: Size) -> Figure:
    """The expected score after each move of these games, and what tiles and moves have added to it."""
    with styled():
        figure = figure_of(size, "Luck", values.name, max(size.height, 0.8 + _ROW_INCHES * len(games)))
        rows = figure.subplots(len(games), 1, squeeze=False)[:, 0]
        for axes, game in zip(rows, games, strict=True):
            curve = score_curve(game, values)
            shown = thinned(len(curve.expected))
            for line, color, label in (
                (curve.expected, INK, "expected score"),
                (curve.tiles, series_color(0), "by tiles: luck"),
                (curve.moves, series_color(1), "by moves"),
            ):
                axes.plot(shown, line[shown], color=color, linewidth=1.2, label=label)
            axes.axhline(0, color=INK, linewidth=0.6)
            axes.set_xlim(0, len(curve.expected) - 1)
            axes.set_title(f"game {game.game}: {game.score:,} points", loc="left", fontsize="small")
            whole_numbers(axes, "x")
            whole_numbers(axes, "y", 4)
            axes.grid(axis="y")
        rows[-1].set_xlabel("moves made")
        handles, labels = rows[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize="small")
    return figure
