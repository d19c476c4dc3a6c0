"""The pictures of evaluations, of one or of several in the same picture.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.

Axes are marked by which score, and after how many moves, a game has typically made each tile. A tile of
exponent k that grew from 2s alone has brought (k - 1) * 2**k points. A tenth of the new tiles are 4s, which
bring 2/11 of all that is on the board, and nobody gets points for them: on average (k - 1 - 2/11) * 2**k. A
move adds 2.2 to the sum of all tiles on average.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from octofold_game.drawing.figures import (
    GRID,
    WIDE,
    Size,
    figure_of,
    label_of,
    percents,
    save_all,
    shortened,
    spaced,
    styled,
    thinned,
    whole_numbers,
    write_above,
)
from octofold_game.drawing.palette import INK, series_color, tile_color
from octofold_game.episodes import Episode
from octofold_game.spawns import CHANCE_OF_FOUR
from octofold_game.trajectories import Climb

from octofold_client.contenders.judges import Judge
from octofold_client.evaluation.luck import score_curve
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.summary import TileShare
from octofold_client.studies.html.results import Shown

_FEW = 10
"""A curve ends where fewer games than this are left, because it would then show single games."""
_BINS = (20, 72)
_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0)
_ROW_INCHES, _CURVE_INCHES = 1.15, 1.5
_NAME_INCHES = 0.18
_AVERAGE_WIDTH, _BAND_ALPHA = 1.3, 0.16
_HEADROOM = 1.4
"""The height of the axes over the highest bar, for the words above the bars."""
_MOST_VALUES = 40
"""Bars that still have room for their values."""


def figures(evaluation: Evaluation, climb: Climb) -> dict[str, Figure]:
    """All pictures of one evaluation by name."""
    return overlaid([Shown(evaluation.conditions.player, evaluation, climb)], WIDE)


def draw(folder: Path, evaluation: Evaluation, climb: Climb) -> list[str]:
    """Save all pictures in `folder` and return the names of their files.

    Raises:
        OSError: a file cannot be written.
    """
    return save_all(figures(evaluation, climb), folder)


def overlaid(results: Sequence[Shown], size: Size) -> dict[str, Figure]:
    """All pictures by name, each with all results."""
    with styled():
        return {
            "score-distribution": _scores(results, size),
            "survival-by-move": _survival(results, size),
            "tiles-reached": _tiles(results, size),
            "score-by-move": _climb(results, size),
        }


def _scores(results: Sequence[Shown], size: Size) -> Figure:
    """A row for each result, so that the clusters of several do not hide each other."""
    height = max(size.height, 1.2 + _ROW_INCHES * len(results))
    figure = _figure(results, size, "Scores, by the largest tile of the game", height)
    rows = figure.subplots(len(results), 1, sharex=True, squeeze=False)[:, 0]
    highest = max(shown.summary.best for shown in results)
    games = max(shown.summary.games for shown in results)
    width = _bin_width(1.02 * highest, games)
    edges = np.arange(0, highest + 2 * width, width)
    tiles = sorted({row.tile for shown in results for row in shown.summary.largest_tiles})
    for number, (axes, shown) in enumerate(zip(rows, results, strict=True)):
        scores, made = (shown.evaluation.games.column(name) for name in ("score", "largest_tile"))
        below = np.zeros(len(edges) - 1)
        for tile in tiles:
            counts = np.histogram(scores[made == tile], edges)[0]
            bins = np.flatnonzero(counts)
            axes.bar(
                edges[bins],
                counts[bins],
                width,
                bottom=below[bins],
                align="edge",
                color=tile_color(tile),
                edgecolor=INK,
                linewidth=0.25,
            )
            below += counts
        axes.set_xlim(0, edges[-1])
        axes.set_ylim(0, _HEADROOM * below.max())
        _mark_average(axes, shown, alone=len(results) == 1)
        mark_scores(axes, note=number == 0)
        whole_numbers(axes, "y", 3 if len(results) > 1 else 5)
        axes.set_ylabel("games")
        axes.grid(axis="y")
    whole_numbers(rows[-1], "x", 6)
    rows[-1].set_xlabel("score")
    legend = [
        Patch(facecolor=tile_color(tile), edgecolor=INK, linewidth=0.25, label=f"{tile}") for tile in tiles
    ]
    figure.legend(handles=legend[::-1], title="largest\ntile", loc="outside right upper")
    marks = _marks(results)
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), fontsize="small")
    return figure


def _marks(results: Sequence[Shown]) -> list[Artist]:
    """What the lines and the band of `_mark_average` are, for a legend."""
    marks: list[Artist] = [Line2D([], [], color=INK, linewidth=_AVERAGE_WIDTH, label="average")]
    if any(shown.summary.average_interval is not None for shown in results):
        marks.append(Patch(color=INK, alpha=_BAND_ALPHA, linewidth=0, label="its 95% interval"))
    if len(results) == 1:
        marks.append(Line2D([], [], color=INK, linewidth=1.1, linestyle=":", label="median"))
    return marks


def _mark_average(axes: Axes, shown: Shown, *, alone: bool) -> None:
    summary = shown.summary
    interval = summary.average_interval
    # The words stand above the bars, where no line may strike them through.
    axes.axvline(summary.average, 0, 1 / _HEADROOM, color=INK, linewidth=_AVERAGE_WIDTH)
    said = f"average {summary.average:,.0f}"
    if interval is not None:
        axes.axvspan(*interval, 0, 1 / _HEADROOM, color=INK, alpha=_BAND_ALPHA, linewidth=0, zorder=0)
        said += f" ({interval[0]:,.0f} to {interval[1]:,.0f})"
    if alone:
        said += f"\nmedian {summary.median:,.0f}"
        axes.axvline(summary.median, 0, 1 / _HEADROOM, color=INK, linewidth=1.1, linestyle=":")
    else:
        said = f"{shortened(shown.name)}\n{said}"
    axes.text(0.995, 0.96, said, transform=axes.transAxes, ha="right", va="top", fontsize="small")


def _bin_width(span: float, games: int) -> float:
    """A round number of points: narrow enough to show clusters, wide enough to hold games."""
    bins = min(max(4 * np.sqrt(games), _BINS[0]), _BINS[1])
    power = 10.0 ** np.floor(np.log10(max(span / bins, 1.0)))
    return float(next(power * step for step in _NICE if power * step >= span / bins))


def _survival(results: Sequence[Shown], size: Size) -> Figure:
    figure = _figure(results, size, "How long the games last")
    axes = figure.add_subplot()
    longest = 1
    for number, shown in enumerate(results):
        lengths = np.sort(shown.evaluation.games.column("moves").astype(np.int64))
        last = thinned(len(lengths))
        axes.step(
            np.concatenate([[0], lengths[last]]),
            np.concatenate([[1.0], 1 - (last + 1) / len(lengths)]),
            where="post",
            color=series_color(number),
            linewidth=1.6,
            label=_legend(shown),
        )
        longest = max(longest, int(lengths[-1]))
    axes.set_xlim(0, 1.02 * longest)
    axes.set_ylim(0, 1.02)
    mark_moves(axes)
    percents(axes)
    whole_numbers(axes, "x")
    axes.set_xlabel("moves made")
    axes.set_ylabel("games that are not over yet")
    axes.grid(axis="y")
    _name(figure, axes, results)
    return figure


def _tiles(results: Sequence[Shown], size: Size) -> Figure:
    figure = _figure(results, size, "How many games make each tile")
    axes = figure.add_subplot()
    most = max(shown.summary.largest_tiles[-1].tile for shown in results)
    smallest = 512 if most >= 1024 else 16  # a weak player makes none of the larger ones
    tiles = [tile for tile in (1 << exponent for exponent in range(4, 18)) if smallest <= tile <= 2 * most]
    width = 0.84 / len(results)
    for number, shown in enumerate(results):
        made = shown.evaluation.games.column("largest_tile")
        reached = [TileShare.of(tile, int((made >= tile).sum()), len(made)) for tile in tiles]
        shares = np.array([row.share for row in reached])
        limits = np.array([row.interval for row in reached])
        margins = np.maximum(0.0, [shares - limits[:, 0], limits[:, 1] - shares])
        places = np.arange(len(tiles)) + width * (number - (len(results) - 1) / 2)
        alone = len(results) == 1
        axes.bar(
            places,
            shares,
            width=0.94 * width,
            color=[tile_color(tile) for tile in tiles] if alone else series_color(number),
            label=_legend(shown),
            yerr=margins,
            error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2.5 if len(results) < 4 else 1.5},
        )
        if len(results) * len(tiles) <= _MOST_VALUES:
            for place, share, (_, high) in zip(places, shares, limits, strict=True):
                letters = "small" if alone else "x-small"
                rotation = 0 if len(results) * len(tiles) <= 14 else 90
                write_above(axes, _share(share, alone=alone), place, max(share, high), letters, rotation)
    axes.set_xticks(np.arange(len(tiles)), [str(tile) for tile in tiles])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(0, 1.16)
    axes.set_yticks(np.linspace(0, 1, 6))
    percents(axes)
    axes.set_xlabel("tile")
    axes.set_ylabel("games that make it")
    axes.grid(axis="y")
    _name(figure, axes, results)
    return figure


def _share(share: float, *, alone: bool) -> str:
    """A share above a bar; narrow bars have no room for the sign, which is on the axis."""
    if alone:
        return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
    return f"{100 * share:.0f}" if share == 0 or share >= 0.01 else "<1"


def _climb(results: Sequence[Shown], size: Size) -> Figure:
    figure = _figure(results, size, "How the score grows")
    axes = figure.add_subplot()
    for number, shown in enumerate(results):
        climb, color = shown.climb, series_color(number)
        count = int(np.count_nonzero(climb.running >= min(_FEW, len(shown.evaluation.games))))
        rows = thinned(count)
        moves, average, deviation = 1 + rows, climb.average[rows], climb.deviation[rows]
        label = _legend(shown) if len(results) > 1 else "average"
        axes.plot(moves, average, color=color, linewidth=1.6, label=label)
        axes.fill_between(
            moves,
            average - deviation,
            average + deviation,
            color=color,
            alpha=0.22,
            linewidth=0,
            label="one standard deviation" if len(results) == 1 else None,
        )
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    mark_scores_upright(axes)
    whole_numbers(axes, "x")
    whole_numbers(axes, "y")
    axes.set_xlabel("moves made")
    axes.set_ylabel("score so far, of games not over yet")
    axes.grid(axis="y")
    if len(results) == 1:
        axes.legend(loc="lower right")
    _name(figure, axes, results)
    return figure


def _name(figure: Figure, axes: Axes, results: Sequence[Shown]) -> None:
    """Name the results above the axes, where no name can hide a curve."""
    if len(results) > 1:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1 if len(results) == 3 else 2)


def _legend(shown: Shown) -> str:
    return label_of(shortened(shown.name))


def _figure(results: Sequence[Shown], size: Size, title: str, height: float = 0.0) -> Figure:
    subtitle = "; ".join(shown.evaluation.title for shown in results)
    names = 0.0 if height or len(results) == 1 else _NAME_INCHES * (len(results) + 1) / 2
    return figure_of(size, title, shortened(subtitle, 110), (height or size.height) + names)


def luck_picture(games: Sequence[Episode], values: Judge, size: Size) -> Figure:
    """The expected score after each move of these games, and what tiles and moves have added to it."""
    with styled():
        figure = figure_of(size, "Luck", values.name, max(size.height, 0.8 + _CURVE_INCHES * len(games)))
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
