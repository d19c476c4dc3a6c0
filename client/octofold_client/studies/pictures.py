"""Draws figures of evaluations, of comparisons and of lost games, as files and for the HTML report.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter
from octofold_game.contract.model import Interval
from octofold_game.drawing.figures import (
    COMPACT,
    WIDE,
    Size,
    evenly_spaced,
    legend_label,
    new_figure,
    percents,
    shortened,
    styled,
    whole_numbers,
    write_above,
)
from octofold_game.drawing.palette import INK, SERIES, series_color, tile_color
from octofold_game.episodes import Episode

from octofold_client.contenders.judges import PROBABILITY, Judge
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.luck import score_curve
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.summary import Summary, TileShare, column
from octofold_client.studies.analysis import QUARTERS, Analysis, Group, JudgeName

Named = tuple[str, Evaluation, Summary]
"""Name, evaluation and summary of a finished evaluation. All names in a picture differ."""

_SHADES = ("#cfe0f2", "#9dbfe3", "#6699cf", "#3b6fb6", "#24487f")
_LONGEST_NAME = 34
_MOST_PAIRS = 28
"""Maximum number of pairs in a forest plot. If a contest has more, only pairs of neighbors in the ranking are
shown."""
_BINS = (20, 72)
_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0)
_SCORES_INCHES, _CURVE_INCHES, _ROW_INCHES = 1.15, 1.5, 0.36
_NAME_INCHES = 0.18
_AVERAGE_WIDTH, _BAND_ALPHA = 1.3, 0.16
_HEADROOM = 1.4
"""Height of the axes, as a multiple of the highest bar. It leaves room for text above the bars."""
_MOST_VALUES = 40
"""Maximum number of bars that are labeled with their values."""


def figures(evaluations: Sequence[tuple[str, Evaluation]], size: Size = WIDE) -> dict[str, Figure]:
    """Draw the pictures of the finished evaluations, by name; none if no evaluation is finished."""
    results = [(name, each, each.summary) for name, each in evaluations if each.summary is not None]
    if not results:
        return {}
    with styled():
        return {"score-distribution": _scores(results, size), "tiles-reached": _tiles(results, size)}


def _scores(results: Sequence[Named], size: Size) -> Figure:
    """Draw the distribution of scores, with a row for each result, so that results do not overlap."""
    height = max(size.height, 1.2 + _SCORES_INCHES * len(results))
    figure = _new_figure(results, size, "Scores, by the largest tile of the game", height)
    rows = figure.subplots(len(results), 1, sharex=True, squeeze=False)[:, 0]
    highest = max(summary.best for _, _, summary in results)
    games = max(summary.games for _, _, summary in results)
    width = _bin_width(1.02 * highest, games)
    edges = np.arange(0, highest + 2 * width, width)
    tiles = sorted({row.tile for _, _, summary in results for row in summary.largest_tiles})
    for axes, (name, evaluation, summary) in zip(rows, results, strict=True):
        scores, made = (column(evaluation.games, field) for field in ("score", "largest_tile"))
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
        _mark_average(axes, summary, "" if len(results) == 1 else shortened(name))
        whole_numbers(axes, "y", 3 if len(results) > 1 else 5)
        axes.set_ylabel("games")
        axes.grid(axis="y")
    whole_numbers(rows[-1], "x", 6)
    rows[-1].set_xlabel("score")
    legend = [
        Patch(facecolor=tile_color(tile), edgecolor=INK, linewidth=0.25, label=f"{tile}") for tile in tiles
    ]
    figure.legend(handles=legend[::-1], title="largest\ntile", loc="outside right upper")
    marks = _legend_of_marks(results)
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), fontsize="small")
    return figure


def _legend_of_marks(results: Sequence[Named]) -> list[Artist]:
    """Return the legend entries for the lines and the band that `_mark_average` draws."""
    marks: list[Artist] = [Line2D([], [], color=INK, linewidth=_AVERAGE_WIDTH, label="average")]
    if any(summary.average_interval is not None for _, _, summary in results):
        marks.append(Patch(color=INK, alpha=_BAND_ALPHA, linewidth=0, label="its 95% interval"))
    if len(results) == 1:
        marks.append(Line2D([], [], color=INK, linewidth=1.1, linestyle=":", label="median"))
    return marks


def _mark_average(axes: Axes, summary: Summary, name: str) -> None:
    interval = summary.average_interval
    # Lines end at the height of the bars, so that they do not cross the text above.
    axes.axvline(summary.average, 0, 1 / _HEADROOM, color=INK, linewidth=_AVERAGE_WIDTH)
    said = f"average {summary.average:,.0f}"
    if interval is not None:
        axes.axvspan(*interval, 0, 1 / _HEADROOM, color=INK, alpha=_BAND_ALPHA, linewidth=0, zorder=0)
        said += f" ({interval[0]:,.0f} to {interval[1]:,.0f})"
    if not name:
        said += f"\nmedian {summary.median:,.0f}"
        axes.axvline(summary.median, 0, 1 / _HEADROOM, color=INK, linewidth=1.1, linestyle=":")
    else:
        said = f"{name}\n{said}"
    axes.text(0.995, 0.96, said, transform=axes.transAxes, ha="right", va="top", fontsize="small")


def _bin_width(span: float, games: int) -> float:
    """Return a round bin width in points: small enough to show clusters, with several games in a bin."""
    bins = min(max(4 * np.sqrt(games), _BINS[0]), _BINS[1])
    power = 10.0 ** np.floor(np.log10(max(span / bins, 1.0)))
    return float(next(power * step for step in _NICE if power * step >= span / bins))


def _tiles(results: Sequence[Named], size: Size) -> Figure:
    figure = _new_figure(results, size, "Games that reach each tile")
    axes = figure.add_subplot()
    most = max(summary.largest_tiles[-1].tile for _, _, summary in results)
    smallest = 512 if most >= 1024 else 16  # for weak players, show smaller tiles
    tiles = [tile for tile in (1 << exponent for exponent in range(4, 18)) if smallest <= tile <= 2 * most]
    width = 0.84 / len(results)
    for number, (name, evaluation, _) in enumerate(results):
        made = column(evaluation.games, "largest_tile")
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
            label=legend_label(shortened(name)),
            yerr=margins,
            error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2.5 if len(results) < 4 else 1.5},
        )
        if len(results) * len(tiles) <= _MOST_VALUES:
            for place, share, (_, high) in zip(places, shares, limits, strict=True):
                letters = "small" if alone else "x-small"
                rotation = 0 if len(results) * len(tiles) <= 14 else 90
                write_above(axes, _share_text(share, alone=alone), place, max(share, high), letters, rotation)
    axes.set_xticks(np.arange(len(tiles)), [str(tile) for tile in tiles])
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(0, 1.16)
    axes.set_yticks(np.linspace(0, 1, 6))
    percents(axes)
    axes.set_xlabel("tile")
    axes.set_ylabel("games that reach the tile")
    axes.grid(axis="y")
    if len(results) > 1:  # above the axes, so that names do not hide bars
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1 if len(results) == 3 else 2)
    return figure


def _share_text(share: float, *, alone: bool) -> str:
    """Format the share that labels a bar, without a percent sign if there are several bars for each tile."""
    if alone:
        return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
    return f"{100 * share:.0f}" if share == 0 or share >= 0.01 else "<1"


def _new_figure(results: Sequence[Named], size: Size, title: str, height: float = 0.0) -> Figure:
    subtitle = "; ".join(evaluation.title for _, evaluation, _ in results)
    names = 0.0 if height or len(results) == 1 else _NAME_INCHES * (len(results) + 1) / 2
    return new_figure(size, title, shortened(subtitle, 110), (height or size.height) + names)


def luck_picture(games: Sequence[Episode], values: Judge, size: Size) -> Figure:
    """Draw the expected score after each move of these games, and how tiles and moves contributed to it.

    Mark the luckiest and the unluckiest tile of each game.
    """
    with styled():
        figure = new_figure(size, "Luck", values.name, max(size.height, 0.8 + _CURVE_INCHES * len(games)))
        rows = figure.subplots(len(games), 1, squeeze=False)[:, 0]
        for axes, game in zip(rows, games, strict=True):
            curve = score_curve(game, values)
            shown = evenly_spaced(len(curve.expected))
            for line, color, label in (
                (curve.expected, INK, "expected score"),
                (curve.tiles, series_color(0), "by tiles: luck"),
                (curve.moves, series_color(1), "by moves"),
            ):
                axes.plot(shown, line[shown], color=color, linewidth=1.2, label=label)
            axes.axhline(0, color=INK, linewidth=0.6)
            axes.set_xlim(0, len(curve.expected) - 1)
            axes.set_title(f"game {game.game}: {game.score:,} points", loc="left", fontsize="small")
            luck, said = np.diff(curve.tiles), list[str]()
            for row, sign, marker in ((luck.argmax(), "▲", "^"), (luck.argmin(), "▼", "v")):
                move, made = int(row) + 1, game.moves[row]
                tile, cell = 4 if made & 64 else 2, made >> 2 & 15
                axes.plot(move, curve.tiles[move], marker, color=series_color(0), markersize=5)
                said.append(f"{sign} move {move:,}: {tile} at row {cell // 4 + 1}, column {cell % 4 + 1}")
            axes.set_title("\n".join(said), loc="right", fontsize="x-small")
            whole_numbers(axes, "x")
            whole_numbers(axes, "y", 4)
            axes.grid(axis="y")
        rows[-1].set_xlabel("moves made")
        handles, labels = rows[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize="small")
    return figure


def comparison(contest: Contest) -> Figure:
    """Draw a forest plot: the averages of the players and, below them, the differences of pairs."""
    ranked = [standing for standing in contest.ranked if standing.side.finished]
    averages = [
        (_end_of(each.side.name), float(each.scores.mean()), each.interval, SERIES[0]) for each in ranked
    ]
    pairs = [pair for pair in contest.pairs if not pair.unfinished]
    what = "Difference"
    if len(pairs) > _MOST_PAIRS:
        neighbors = {frozenset(each.side.name for each in both) for both in pairwise(ranked)}
        pairs = [pair for pair in pairs if {pair.first.name, pair.second.name} in neighbors]
        what = "Difference of neighbors"
    differences = []
    for pair in sorted(pairs, key=lambda pair: -abs(pair.deciding_difference[0])):
        better, worse, difference, interval = pair.lead
        color = SERIES[1] if pair.clear else SERIES[5]
        differences.append((f"{_end_of(better)}\nover {_end_of(worse)}", difference, interval, color))
    if contest.pairs[0].stopped:
        what += " up to the cap"
    heights = len(averages), len(differences)
    with styled():
        figure = new_figure(COMPACT, "", height=_ROW_INCHES * sum(heights) + 1.5)
        above, below = figure.subplots(2, 1, height_ratios=heights)
        above.set_title("Average score, 95% intervals", loc="left", fontsize="medium")
        _intervals(above, averages)
        above.set_xlim(left=0)
        below.set_title(f"{what}, 95% intervals (gray: not significant)", loc="left", fontsize="medium")
        _intervals(below, differences)
        below.axvline(0, color=INK, linewidth=0.8)
    return figure


def _intervals(axes: Axes, rows: Sequence[tuple[str, float, Interval | None, str]]) -> None:
    """Draw a point and its interval for each row of name, value, interval and color, the first row on top."""
    for place, (_, value, interval, color) in enumerate(rows):
        if interval is not None:
            axes.plot(interval, (place, place), color=color, linewidth=4, alpha=0.45, solid_capstyle="butt")
        axes.plot(value, place, "o", color=color, markersize=5)
    axes.set_yticks(np.arange(len(rows)), [name for name, *_ in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    whole_numbers(axes, "x", 5)
    axes.grid(axis="x")


def _end_of(name: str) -> str:
    """Shorten a long name to its end, because names of folders differ more at their end."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"


def lost_games(analysis: Analysis) -> dict[str, Figure]:
    """Draw the pictures of an analysis, by name: "endings" and, if it was judged, "agreement" and "cost"."""
    judge = analysis.judge
    groups = [group for group in reversed(analysis.by_distance) if group.judged]
    names = ["endings", "agreement", "cost"] if judge is not None and groups else ["endings"]
    with styled():
        figures = {name: new_figure(COMPACT, "") for name in names}
        _endings(figures["endings"].add_subplot(), analysis)
        if judge is not None and groups:
            _agreement(figures["agreement"].add_subplot(), groups)
            _costs(figures["cost"].add_subplot(), groups, judge)
    return figures


def _endings(axes: Axes, analysis: Analysis) -> None:
    places = np.arange(len(analysis.endings))
    below = np.zeros(len(places))
    for quarter, label in enumerate(QUARTERS):
        games = np.array([row.quarters[quarter] for row in analysis.endings], float)
        axes.bar(
            places, games, bottom=below, label=label, color=_SHADES[quarter], edgecolor=INK, linewidth=0.3
        )
        below += games
    for place, row in enumerate(analysis.endings):
        write_above(axes, f"{row.games:,}", place, row.games)
    axes.set_xticks(places, [str(row.largest_tile) for row in analysis.endings])
    axes.tick_params(axis="x", length=0)
    whole_numbers(axes, "y", 5)
    axes.set_xlabel("largest tile on the last board")
    axes.set_ylabel("games")
    axes.grid(axis="y")
    axes.set_ylim(top=1.6 * float(below.max()))  # room for the legend
    axes.legend(
        title="sum of all other tiles, as a share of the largest",
        ncols=3,
        loc="upper left",
        columnspacing=0.9,
        handlelength=1.2,
        borderaxespad=0.2,
    )


def _agreement(axes: Axes, groups: Sequence[Group]) -> None:
    places = np.arange(len(groups))
    shares = np.array([group.agreement or 0.0 for group in groups])
    limits = np.array(
        [group.agreement_interval or (share, share) for group, share in zip(groups, shares, strict=True)]
    )
    margins = np.maximum(0.0, [shares - limits[:, 0], limits[:, 1] - shares])
    axes.errorbar(
        places, shares, margins, fmt="o-", color=SERIES[0], ecolor=SERIES[0], elinewidth=1, capsize=2.5
    )
    for place, (share, (_, high)) in enumerate(zip(shares, limits, strict=True)):
        write_above(axes, f"{share:.0%}", place, max(share, high))
    axes.set_ylim(0, 1.1)
    axes.set_yticks(np.linspace(0, 1, 6))
    percents(axes)
    _label_distances(axes, groups)
    axes.set_ylabel("agreement with the judge")


def _costs(axes: Axes, groups: Sequence[Group], judge: JudgeName) -> None:
    places = np.arange(len(groups))
    costs = [group.cost or 0.0 for group in groups]
    axes.bar(places, costs, color=SERIES[1])
    for place, cost in enumerate(costs):
        write_above(axes, _cost_text(cost, judge), place, cost)
    axes.set_ymargin(0.12)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda cost, _: _cost_text(cost, judge)))
    _label_distances(axes, groups)
    axes.set_ylabel(
        "average loss of probability" if judge.unit == PROBABILITY else f"average loss in {judge.unit}"
    )


def _label_distances(axes: Axes, groups: Sequence[Group]) -> None:
    axes.set_xlabel("moves left until the end of the game")
    axes.grid(axis="y")
    axes.set_xticks(np.arange(len(groups)), [group.label.replace(" to ", "-") for group in groups])
    axes.tick_params(axis="x", length=0)


def _cost_text(cost: float, judge: JudgeName) -> str:
    if judge.unit == PROBABILITY:
        return f"{cost:.1%}"
    return f"{cost:,.0f}" if cost >= 10 or cost == 0 else f"{cost:.2g}"
