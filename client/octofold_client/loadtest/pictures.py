"""The pictures of load tests, of one or of several in the same picture.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from msgspec import UNSET
from octofold_game.drawing.figures import (
    WIDE,
    Size,
    figure_of,
    label_of,
    save_all,
    shortened,
    styled,
    thinned,
    whole_numbers,
)
from octofold_game.drawing.palette import INK, series_color

from octofold_client.loadtest.loads import per_second
from octofold_client.loadtest.result import Latencies, LoadTest, StepResult

_LINES = {"p50": ("half of the calls", "-"), "p99": ("99 of 100", "--")}
"""What is drawn, in words and with the style of the line."""
_NINES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
_MOST_CURVES = 6
_LONG_NAME = 20
"""Characters of a name from which on names stand one below the other."""
_NAME_INCHES = 0.17


def draw(folder: Path, test: LoadTest) -> list[str]:
    """Save both pictures in `folder` and return the names of their files.

    Raises:
        OSError: a file cannot be written.
    """
    return save_all(overlaid({test.title: test}, WIDE), folder)


def overlaid(tests: dict[str, LoadTest], size: Size) -> dict[str, Figure]:
    """Both pictures by name, each with all tests, which are given by their names."""
    with styled():
        return {
            "latency-against-rate": _against_rate(tests, size),
            "latency-percentiles": _percentiles(tests, size),
        }


def _against_rate(tests: dict[str, LoadTest], size: Size) -> Figure:
    figure = figure_of(size, "Latency under load", shortened("; ".join(tests), 110))
    axes = figure.add_subplot()
    for number, (name, test) in enumerate(tests.items()):
        steps = _curve_of(test)
        rates = [step.calls_per_second for step in steps]
        for key, (said, style) in _LINES.items():
            axes.plot(
                rates,
                [step.latency_ms[key] or np.nan for step in steps],
                marker="o",
                markersize=4,
                linestyle=style,
                color=series_color(number),
                label=_label(tests, name, said),
            )
        _note_callers(axes, steps)
        _mark_limit(axes, test)
    axes.set_xlim(left=0)
    axes.set_ymargin(0.14)
    whole_numbers(axes, "x")
    axes.set_xlabel("answered calls per second")
    _finish(figure, axes)
    return figure


def _curve_of(test: LoadTest) -> list[StepResult]:
    """The steps by load, so that the curve turns back where more load gets fewer answers."""
    # A search begins with a closed loop, which does not belong to the curve.
    shown = [step for step in test.steps if step.calls and (test.limit is None or step.loop == "open")]
    return sorted(shown, key=lambda step: step.concurrency or step.rate or 0.0)


def _note_callers(axes: Axes, steps: Sequence[StepResult]) -> None:
    """Write the number of callers at the points of a closed loop; an open loop's load is on the axis."""
    closed = [step for step in steps if step.concurrency is not UNSET]
    for step in closed:
        axes.annotate(
            step.name if step is closed[0] else f"{step.concurrency:,}",
            (step.calls_per_second, step.latency_ms["p50"] or 0.0),
            (0, -5),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize="x-small",
        )


def _mark_limit(axes: Axes, test: LoadTest) -> None:
    if test.limit is None:
        return
    limit, rate = test.limit, test.limit.highest_rate
    axes.axhline(limit.milliseconds, color=INK, linestyle=":", linewidth=1, label=f"limit: {limit}")
    if rate is not None:
        label = f"highest rate within it: {per_second(rate)} calls/s"
        axes.axvline(rate, color=INK, alpha=0.5, linewidth=1, label=label)


def _percentiles(tests: dict[str, LoadTest], size: Size) -> Figure:
    figure = figure_of(size, "How slow the slowest calls are", shortened("; ".join(tests), 110))
    axes = figure.add_subplot()
    most = 10.0
    for number, (name, test) in enumerate(tests.items()):
        steps = sorted(
            (step for step in test.steps if step.histogram_us.buckets),
            key=lambda step: step.offered_per_second,
        )
        shown = steps[-1:] if len(tests) > 1 else steps[:: 1 + (len(steps) - 1) // _MOST_CURVES]
        for order, step in enumerate(shown):
            nines, milliseconds = _curve(step.histogram_us)
            most = max(most, 2.0 * step.calls)
            color, label = series_color(number + order), _label(tests, name, step.name)
            axes.plot(nines, milliseconds, drawstyle="steps-pre", color=color, label=label)
    axes.set_xscale("log")
    axes.set_xlim(1, most)
    ticks = [percent for percent in _NINES if 1 / (1 - percent / 100) <= most]
    axes.set_xticks([1 / (1 - percent / 100) for percent in ticks], [f"{percent:g}%" for percent in ticks])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("share of the calls answered by then")
    _finish(figure, axes)
    return figure


def _curve(latencies: Latencies) -> tuple[list[float], list[float]]:
    """Latency in milliseconds against 1 / (share of slower calls), which makes each nine a power of ten."""
    nines, milliseconds, seen = [1.0], [latencies.buckets[0][0] / 1e3], 0
    for largest, count in latencies.buckets:
        # No call is above the last bucket; half a call stands for those not observed.
        seen += count
        nines.append(latencies.count / max(latencies.count - seen, 0.5))
        milliseconds.append(min(largest, latencies.max) / 1e3)
    # Of the many points below 99%, a few are enough; each of the few above counts.
    most = int(np.searchsorted(nines, 100))
    rows = [*thinned(most), *range(most, len(nines))] if most else range(len(nines))
    return [nines[row] for row in rows], [milliseconds[row] for row in rows]


def _label(tests: dict[str, LoadTest], name: str, what: str) -> str:
    return what if len(tests) == 1 else label_of(f"{shortened(name, 34)}: {what}")


def _finish(figure: Figure, axes: Axes) -> None:
    """Complete the axes, and name the curves below them, where no name can hide a curve."""
    axes.set_yscale("log")
    # A label for every step of a decade would overlap with the next one.
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("milliseconds until the answer")
    axes.grid()
    handles, labels = axes.get_legend_handles_labels()
    columns = 1 if max(map(len, labels), default=0) > _LONG_NAME else 3
    figure.set_figheight(figure.get_figheight() + _NAME_INCHES * -(-len(labels) // columns))
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, fontsize="small")
