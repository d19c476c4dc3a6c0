"""The picture of load tests, of one or of several.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from octofold_game.drawing.figures import WIDE, Size, figure_of, label_of, save_all, shortened, styled
from octofold_game.drawing.palette import INK, series_color

from octofold_client.loadtest.loads import per_second
from octofold_client.loadtest.result import LoadTest

_PANELS = {"p50": "half of the calls", "p90": "9 of 10 calls", "p99": "99 of 100 calls"}
_PANEL_INCHES, _NAME_INCHES = 1.4, 0.17


def draw(folder: Path, test: LoadTest) -> list[str]:
    """Save the picture in `folder` and return the names of its files.

    Raises:
        OSError: the file cannot be written.
    """
    return save_all(overlaid({test.title: test}, WIDE), folder)


def overlaid(tests: dict[str, LoadTest], size: Size) -> dict[str, Figure]:
    """The picture by its name, with all tests, which are given by their names."""
    with styled():
        return {"latency-against-rate": _against_rate(tests, size)}


def _against_rate(tests: dict[str, LoadTest], size: Size) -> Figure:
    """Latency against the load, a panel for each percentile.

    The load of closed loops is their number of callers. Where there is an open loop, it is the offered rate.
    """
    loops = {step.loop for test in tests.values() for step in test.steps if _shown(test, step.loop)}
    is_closed = loops == {"closed"}
    height = size.height - WIDE.height + (1.0 + _PANEL_INCHES * len(_PANELS)) + _NAME_INCHES * len(tests)
    figure = figure_of(size, "Latency under load", shortened("; ".join(tests), 110), height)
    panels = figure.subplots(len(_PANELS), sharex=True)
    for axes, (key, said) in zip(panels, _PANELS.items(), strict=True):
        for number, (name, test) in enumerate(tests.items()):
            points = sorted(
                (
                    (step.concurrency or 0) if is_closed else step.offered_per_second,
                    step.latency_ms[key] or np.nan,
                )
                for step in test.steps
                if step.calls and _shown(test, step.loop)
            )
            color, label = series_color(number), label_of(shortened(name, 60))
            axes.plot(*np.array(points or [(np.nan, np.nan)]).T, "o-", markersize=4, color=color, label=label)
            if test.limit is not None and key == f"p{test.limit.percentile:g}":
                axes.axhline(test.limit.milliseconds, color=INK, linestyle=":", linewidth=1)
        axes.set_title(f"{said} are answered within, in ms ({key})", fontsize="small", loc="left")
        axes.set_yscale("log")
        # A label for every step of a decade would overlap with the next one.
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid()
    panels[-1].set_xscale("log", base=2 if is_closed else 10)
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: per_second(value)))
    panels[-1].set_xlabel("callers, each of which waits for its answer" if is_closed else "offered calls/s")
    if len(tests) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", fontsize="small")
    return figure


def _shown(test: LoadTest, loop: str) -> bool:
    # A search begins with a closed loop, which does not belong to the curve.
    return test.limit is None or loop == "open"
