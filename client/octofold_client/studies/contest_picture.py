"""The picture of a comparison, a forest plot: the averages of the players and the differences of pairs.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from octofold_game.contract.model import Interval
from octofold_game.drawing.figures import Size, figure_of, styled, whole_numbers
from octofold_game.drawing.palette import INK, SERIES

from octofold_client.evaluation.contest import Contest

_ROW_INCHES, _AROUND_INCHES = 0.36, 0.75
_BLUE, _ORANGE, _GREY = SERIES[0], SERIES[1], SERIES[5]
_LONGEST_NAME = 34
_MOST_PAIRS = 28
"""Of more pairs, only the neighbors in the table are shown."""


@dataclass(frozen=True)
class _Row:
    """A value with its interval."""

    name: str
    value: float
    interval: Interval | None
    color: str


@dataclass(frozen=True)
class _Panel:
    title: str
    rows: Sequence[_Row]
    """The first on top."""
    zero: bool
    """Whether zero divides the rows."""


def panels(contest: Contest, size: Size) -> dict[str, Figure]:
    """The two halves of the picture, "averages" and "differences"."""
    averages, differences = _panels(contest)
    with styled():
        return {
            "averages": _figure(averages, size),
            "differences": _figure(differences, size),
        }


def _panels(contest: Contest) -> tuple[_Panel, _Panel]:
    ranked = [standing for standing in contest.ranked if standing.side.finished]
    averages = [
        _Row(_short(each.side.name), float(each.scores.mean()), each.interval, _BLUE) for each in ranked
    ]
    pairs = [pair for pair in contest.pairs if not pair.unfinished]
    what = "Difference"
    if len(pairs) > _MOST_PAIRS:
        neighbors = {frozenset(each.side.name for each in both) for both in pairwise(ranked)}
        pairs = [pair for pair in pairs if {pair.first.name, pair.second.name} in neighbors]
        what = "Difference of neighbors"
    pairs.sort(key=lambda pair: -abs(pair.shown[0]))
    differences = []
    for pair in pairs:
        better, worse, difference, interval = pair.lead
        name = f"{_short(better)}\nover {_short(worse)}"
        differences.append(_Row(name, difference, interval, _ORANGE if pair.clear else _GREY))
    if contest.pairs[0].stopped:
        what += " up to the cap"
    return (
        _Panel("Average score, 95% intervals", averages, zero=False),
        _Panel(f"{what}, 95% intervals (gray: not clear)", differences, zero=True),
    )


def _figure(panel: _Panel, size: Size) -> Figure:
    """A panel; rows have the same height in all panels."""
    inches = _ROW_INCHES * len(panel.rows) + _AROUND_INCHES + 0.5 * size.titled
    figure = figure_of(size, panel.title, height=inches)
    _intervals(figure.subplots(), panel)
    return figure


def _intervals(axes: Axes, panel: _Panel) -> None:
    """Draw a point with its interval in each row."""
    for place, row in enumerate(panel.rows):
        if row.interval is not None:
            both = (place, place)
            axes.plot(row.interval, both, color=row.color, linewidth=4, alpha=0.45, solid_capstyle="butt")
        axes.plot(row.value, place, "o", color=row.color, markersize=5)
    axes.set_yticks(np.arange(len(panel.rows)), [row.name for row in panel.rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    if panel.zero:
        axes.axvline(0, color=INK, linewidth=0.8)
    else:
        axes.set_xlim(left=0)
    whole_numbers(axes, "x", 5)
    axes.grid(axis="x")


def _short(name: str) -> str:
    """The name, or its end if it is long: the end of a folder tells more than its beginning."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
