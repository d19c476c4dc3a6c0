"""The pictures of load tests, of one or of several in the same picture.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
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

from octofold_client.loadtest.histogram import Histogram
from octofold_client.loadtest.loads import Closed, Load, Open, per_second
from octofold_client.loadtest.result import LoadTest, latencies_ms
from octofold_client.loadtest.steps import Step

_LINES = {"p50": "half of the calls", "p90": "9 of 10", "p99": "99 of 100", "p99.9": "999 of 1,000"}
_FEW_LINES = {"p50": ("half of the calls", "-"), "p99": ("99 of 100", "--")}
"""What several tests in one picture show, with the style of the line."""
_NINES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
_MOST_CURVES = 6
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
    figure = _figure(tests, size, "Latency under load")
    axes = figure.add_subplot()
    alone = len(tests) == 1
    for number, (name, test) in enumerate(tests.items()):
        steps = _curve_of(test)
        lines = {key: (said, "-") for key, said in _LINES.items()} if alone else _FEW_LINES
        for order, (key, (said, style)) in enumerate(lines.items()):
            rates, values = _points(steps, key)
            axes.plot(
                rates,
                values,
                marker="o",
                markersize=4,
                linestyle=style,
                color=series_color(order if alone else number),
                label=said if alone else label_of(f"{shortened(name, 34)}: {said}"),
            )
        _note_loads(axes, steps, next(iter(lines)) if not alone else "p50")
        _mark_limit(axes, test, alone=alone)
    axes.set_xlim(left=0)
    axes.set_ymargin(0.14)
    whole_numbers(axes, "x")
    _milliseconds(axes)
    axes.set_xlabel("answered calls per second")
    axes.set_ylabel("milliseconds until the answer")
    axes.grid()
    if alone:
        axes.legend(title="answered within", loc="best")
    else:
        _name(figure, axes)
    return figure


def _curve_of(test: LoadTest) -> list[Step]:
    """The steps by load, so that the curve turns back where more load gets fewer answers."""
    # A search begins with a closed loop, which does not belong to the curve.
    shown = [step for step in test.steps if test.limit is None or isinstance(step.load, Open)]
    return sorted(shown, key=lambda step: _amount(step.load))


def _amount(load: Load) -> float:
    return load.callers if isinstance(load, Closed) else load.rate


def _points(steps: Sequence[Step], key: str) -> tuple[list[float], list[float]]:
    found = [(step.counts.calls_per_second, latencies_ms(step.counts)[key]) for step in steps]
    known = [(rate, value) for rate, value in found if value is not None]
    return [rate for rate, _ in known], [value for _, value in known]


def _note_loads(axes: Axes, steps: Sequence[Step], key: str) -> None:
    """Write the number of callers at the points of a closed loop; an open loop's load is on the axis."""
    closed = [step for step in steps if isinstance(step.load, Closed) and step.counts.answered]
    for step in closed:
        assert isinstance(step.load, Closed)
        value = latencies_ms(step.counts)[key]
        callers = step.load.callers
        axes.annotate(
            f"{step.load}" if step is closed[0] else f"{callers:,}",
            (step.counts.calls_per_second, value or 0.0),
            (0, -5),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize="x-small",
        )


def _mark_limit(axes: Axes, test: LoadTest, *, alone: bool) -> None:
    if test.limit is None:
        return
    axes.axhline(test.limit.milliseconds, color=INK, linestyle=":", linewidth=1, label=f"limit: {test.limit}")
    if test.highest_rate is not None:
        axes.axvline(
            test.highest_rate,
            color=INK,
            alpha=0.5,
            linewidth=1,
            label=f"highest rate within it: {per_second(test.highest_rate)} calls/s" if alone else None,
        )


def _percentiles(tests: dict[str, LoadTest], size: Size) -> Figure:
    figure = _figure(tests, size, "How slow the slowest calls are")
    axes = figure.add_subplot()
    most = 10.0
    for number, (name, test) in enumerate(tests.items()):
        steps = [step for step in test.steps if step.counts.latencies.count]
        if len(tests) > 1:
            steps = sorted(steps, key=lambda step: step.counts.sent / step.counts.seconds)[-1:]
        elif len(steps) > _MOST_CURVES:
            places = np.linspace(0, len(steps) - 1, _MOST_CURVES).round().astype(int)
            steps = [steps[place] for place in places]
        shades = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.8, max(1, len(steps))))
        for shade, step in zip(shades, steps, strict=True):
            nines, milliseconds = _curve(step.counts.latencies)
            most = max(most, 2.0 * step.counts.answered)
            axes.plot(
                nines,
                milliseconds,
                drawstyle="steps-pre",
                color=series_color(number) if len(tests) > 1 else tuple(shade),
                label=label_of(f"{shortened(name, 34)}: {step.load}") if len(tests) > 1 else str(step.load),
            )
    axes.set_xscale("log")
    axes.set_xlim(1, most)
    ticks = [percent for percent in _NINES if 1 / (1 - percent / 100) <= most]
    axes.set_xticks([1 / (1 - percent / 100) for percent in ticks], [f"{percent:g}%" for percent in ticks])
    axes.xaxis.minorticks_off()
    _milliseconds(axes)
    axes.set_xlabel("share of the calls answered by then")
    axes.set_ylabel("milliseconds until the answer")
    axes.grid()
    if len(tests) == 1:
        axes.legend(loc="best")
    else:
        _name(figure, axes)
    return figure


def _curve(latencies: Histogram) -> tuple[list[float], list[float]]:
    """Latency in milliseconds against 1 / (share of slower calls), which makes each nine a power of ten."""
    nines, milliseconds, seen = [1.0], [latencies.rows()[0][0] / 1e3], 0
    for largest, count in latencies.rows():
        # No call is above the last bucket; half a call stands for those not observed.
        seen += count
        nines.append(latencies.count / max(latencies.count - seen, 0.5))
        milliseconds.append(min(largest, latencies.max) / 1e3)
    # Of the many points below 99%, a few are enough; each of the few above counts.
    most = int(np.searchsorted(nines, 100))
    rows = [*thinned(most), *range(most, len(nines))] if most else range(len(nines))
    return [nines[row] for row in rows], [milliseconds[row] for row in rows]


def _name(figure: Figure, axes: Axes) -> None:
    """Name the tests above the axes, where no name can hide a curve."""
    handles, labels = axes.get_legend_handles_labels()
    figure.set_figheight(figure.get_figheight() + _NAME_INCHES * len(labels))
    figure.legend(handles, labels, loc="outside upper left")


def _milliseconds(axes: Axes) -> None:
    axes.set_yscale("log")
    # A label for every step of a decade would overlap with the next one.
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _figure(tests: dict[str, LoadTest], size: Size, title: str) -> Figure:
    return figure_of(size, title, shortened("; ".join(tests), 110))
