"""The picture of an analysis: with which tiles games end, and what a judge says about their last moves.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from octofold_game.drawing.figures import (
    COMPACT,
    figure_of,
    percents,
    styled,
    whole_numbers,
    write_above,
)
from octofold_game.drawing.palette import INK, SERIES

from octofold_client.contenders.judges import PROBABILITY
from octofold_client.studies.endings import QUARTERS, Group, JudgeName, KeptAnalysis

_SHADES = ("#cfe0f2", "#9dbfe3", "#6699cf", "#3b6fb6", "#24487f")


def panels_of(analysis: KeptAnalysis) -> dict[str, Figure]:
    """The panels of the picture, each as a picture of its own, by what they show."""
    groups = [group for group in reversed(analysis.by_distance) if group.judged]
    found = {}
    with styled():
        for name in ["endings", "agreement", "cost"] if analysis.judge and analysis.judged else ["endings"]:
            figure = figure_of(COMPACT, "")
            axes = figure.add_subplot()
            if name == "endings":
                _endings(axes, analysis)
            elif name == "agreement":
                _agreement(axes, groups)
            else:
                assert analysis.judge is not None
                _costs(axes, groups, analysis.judge)
            if name != "endings":
                axes.set_xlabel("moves left until the end of the game")
            axes.grid(axis="y")
            found[name] = figure
    return found


def _endings(axes: Axes, analysis: KeptAnalysis) -> None:
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
    _distances(axes, groups)
    axes.set_ylabel("moves on which the judge agrees")


def _costs(axes: Axes, groups: Sequence[Group], judge: JudgeName) -> None:
    places = np.arange(len(groups))
    costs = [group.cost or 0.0 for group in groups]
    axes.bar(places, costs, color=SERIES[1])
    for place, cost in enumerate(costs):
        write_above(axes, _cost(cost, judge), place, cost)
    axes.set_ymargin(0.12)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda cost, _: _cost(cost, judge)))
    _distances(axes, groups)
    axes.set_ylabel(
        "probability lost, by the judge" if judge.unit == PROBABILITY else f"{judge.unit} lost, by the judge"
    )


def _distances(axes: Axes, groups: Sequence[Group]) -> None:
    axes.set_xticks(np.arange(len(groups)), [group.label.replace(" to ", "-") for group in groups])
    axes.tick_params(axis="x", length=0)


def _cost(cost: float, judge: JudgeName) -> str:
    if judge.unit == PROBABILITY:
        return f"{cost:.1%}"
    return f"{cost:,.0f}" if cost >= 10 or cost == 0 else f"{cost:.2g}"
