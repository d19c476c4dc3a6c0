"""The picture of a load test.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from octofold_game.drawing.figures import WIDE, new_figure, save_all, shortened, styled
from octofold_game.drawing.palette import INK, series_color

from octofold_client.loadtest.loads import per_second
from octofold_client.loadtest.result import LoadTest, StepResult, percentile_name

_PANELS = (50.0, 90.0, 99.0)
"""Percentiles that are always drawn. The percentile of a limit is drawn as well."""
_INCHES = 1.75
"""Height of a panel in inches."""


def draw(test: LoadTest, folder: Path) -> list[str]:
    """Save the picture of latency against load, and return the names of the files.

    The load is the number of callers of closed loops, or the offered rate of open loops.

    Raises:
        OSError: the file cannot be written.
    """
    with styled():
        return save_all({"latency-against-load": latency_against_load(test)}, folder)


def latency_against_load(test: LoadTest) -> Figure:
    """Return a figure with a panel for each percentile, including the percentile of the limit."""
    # A search begins with a closed loop. Its step has no rate, so it is not drawn.
    steps = [step for step in test.steps if step.calls and (test.limit is None or step.loop == "open")]
    is_closed = all(step.loop == "closed" for step in steps)
    percentiles = sorted({*_PANELS, *([test.limit.percentile] if test.limit is not None else [])})
    figure = new_figure(WIDE, "Latency under load", shortened(test.title, 110), _INCHES * len(percentiles))
    panels = figure.subplots(len(percentiles), sharex=True)
    for axes, percentile in zip(panels, percentiles, strict=True):
        name = percentile_name(percentile)
        points = sorted((_load(step), step.latency_ms[name] or np.nan) for step in steps)
        axes.plot(*np.array(points or [(np.nan, np.nan)]).T, "o-", markersize=4, color=series_color(0))
        if test.limit is not None and percentile == test.limit.percentile:
            axes.axhline(test.limit.milliseconds, color=INK, linestyle=":", linewidth=1)
        title = f"latency in ms that {percentile:g}% of the calls do not exceed ({name})"
        axes.set_title(title, fontsize="small", loc="left")
        axes.set_yscale("log")
        # Label only some steps of each decade, so that labels do not overlap.
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid()
    panels[-1].set_xscale("log", base=2 if is_closed else 10)
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: per_second(value)))
    panels[-1].set_xlabel("callers, each waiting for its answer" if is_closed else "offered calls/s")
    return figure


def _load(step: StepResult) -> float:
    return step.concurrency or 0 if step.loop == "closed" else step.offered_per_second
