"""The pictures of a load test: latency against rate, and latency by percentile.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from octofold_client.analysis.drawing import canvas, save
from octofold_client.loadtest.histogram import Histogram
from octofold_client.loadtest.loads import Open, per_second
from octofold_client.loadtest.result import LoadTest, latencies_ms

_LINES = ("p50", "p90", "p99", "p99.9")
_NINES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def draw(folder: Path, test: LoadTest) -> list[str]:
    """Save both pictures in `folder` and return the names of their files.

    Raises:
        OSError: a file cannot be written.
    """
    pictures = {
        "latency-against-rate.png": _against_rate(test),
        "latency-percentiles.png": _percentiles(test),
    }
    for name, figure in pictures.items():
        save(figure, folder / name)
    return list(pictures)


def _against_rate(test: LoadTest) -> Figure:
    figure, axes = _canvas(test, "answered calls per second")
    # A search begins with a closed loop, which does not belong to the curve.
    shown = [step for step in test.steps if test.limit is None or isinstance(step.load, Open)]
    # Sorted by load, so that the curve turns back where more load gets fewer answers.
    steps = sorted(shown, key=lambda step: step.counts.sent / step.counts.seconds)
    rates = [step.counts.calls_per_second for step in steps]
    for name in _LINES:
        found = [latencies_ms(step.counts)[name] for step in steps]
        points = [(rate, value) for rate, value in zip(rates, found, strict=True) if value is not None]
        axes.plot([rate for rate, _ in points], [value for _, value in points], marker="o", label=name)
    if test.limit is not None:
        axes.axhline(test.limit.milliseconds, color="black", linestyle=":", label=str(test.limit))
        if test.highest_rate is not None:
            axes.axvline(
                test.highest_rate,
                color="black",
                alpha=0.4,
                label=f"highest rate {per_second(test.highest_rate)}/s",
            )
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.legend()
    return figure


def _percentiles(test: LoadTest) -> Figure:
    figure, axes = _canvas(test, "percentile")
    for step in test.steps:
        latencies = step.counts.latencies
        if latencies.count:
            nines, milliseconds = _curve(latencies)
            axes.plot(nines, milliseconds, drawstyle="steps-pre", label=str(step.load))
    axes.set_xscale("log")
    axes.set_xticks([1 / (1 - percent / 100) for percent in _NINES], [f"{percent:g}%" for percent in _NINES])
    axes.xaxis.minorticks_off()
    axes.set_xlim(left=1, right=max(10.0, *(2.0 * step.counts.answered for step in test.steps)))
    axes.legend(fontsize="small", ncols=2)
    return figure


def _curve(latencies: Histogram) -> tuple[list[float], list[float]]:
    """Latency in milliseconds against 1 / (share of slower calls), which makes each nine a power of ten."""
    nines, milliseconds, seen = [1.0], [latencies.rows()[0][0] / 1e3], 0
    for largest, count in latencies.rows():
        # No call is above the last bucket; half a call stands for those not observed.
        seen += count
        nines.append(latencies.count / max(latencies.count - seen, 0.5))
        milliseconds.append(min(largest, latencies.max) / 1e3)
    return nines, milliseconds


def _canvas(test: LoadTest, x: str) -> tuple[Figure, Axes]:
    figure, axes = canvas(test.title, x, "latency, ms")
    axes.set_yscale("log")
    # A label for every step of a decade would overlap with the next one.
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return figure, axes
