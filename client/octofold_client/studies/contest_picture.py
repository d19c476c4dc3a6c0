"""The picture of a comparison: the average of each player, and the difference of every pair.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from octofold_game.contract.model import Interval
from octofold_game.drawing.figures import save, whole_numbers
from octofold_game.drawing.palette import SERIES

from octofold_client.evaluation.contest import Contest

FILE = "comparison.png"
_INCHES_WIDE, _INCHES_EACH, _INCHES_AROUND = 11.0, 0.45, 1.6
_BLUE, _ORANGE, _GREY = SERIES[0], SERIES[1], SERIES[5]
_LONGEST_NAME = 34


def draw(folder: Path, contest: Contest) -> str:
    """Save the picture in `folder` and return the name of its file.

    Raises:
        OSError: the file cannot be written.
    """
    save(figure(contest), folder / FILE)
    return FILE


def figure(contest: Contest) -> Figure:
    """The picture, with a panel for the averages and one for the differences."""
    ranked = [standing for standing in contest.ranked if standing.side.finished]
    pairs = [pair for pair in contest.pairs if not pair.unfinished]
    rows = max(len(ranked), len(pairs))
    drawn = Figure(figsize=(_INCHES_WIDE, _INCHES_AROUND + _INCHES_EACH * max(rows, 3)))
    averages, differences = drawn.subplots(1, 2)
    _intervals(
        averages,
        [_short(standing.side.name) for standing in ranked],
        [float(standing.scores.mean()) for standing in ranked],
        [standing.interval for standing in ranked],
        [_BLUE] * len(ranked),
    )
    averages.set_title("average score, 95% intervals", loc="left", fontsize="medium")
    pairs.sort(key=lambda pair: -abs(pair.shown[0]))
    leads = [pair.lead for pair in pairs]
    _intervals(
        differences,
        [f"{_short(better)}\nover {_short(worse)}" for better, worse, _, _ in leads],
        [difference for _, _, difference, _ in leads],
        [interval for *_, interval in leads],
        [_ORANGE if pair.clear else _GREY for pair in pairs],
    )
    differences.axvline(0, color="black", linewidth=0.8)
    stopped = contest.pairs[0].stopped
    what = "difference up to the cap, 95% intervals at any look" if stopped else "difference, 95% intervals"
    differences.set_title(what, loc="left", fontsize="medium")
    return drawn


def _intervals(
    axes: Axes, names: list[str], values: list[float], intervals: list[Interval | None], colors: list[str]
) -> None:
    """Draw a point with its interval in each row, the first row on top."""
    for place, (value, interval, color) in enumerate(zip(values, intervals, colors, strict=True)):
        if interval is not None:
            axes.plot(interval, (place, place), color=color, linewidth=3, alpha=0.5, solid_capstyle="butt")
        axes.plot(value, place, "o", color=color)
    axes.set_yticks(np.arange(len(names)), names, fontsize="small", parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    whole_numbers(axes, "x")
    axes.grid(alpha=0.25, axis="x")


def _short(name: str) -> str:
    """The name, or its end if it is long: the end of a folder tells more than its beginning."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"
