"""Training curves as a picture; the reports of a run as CSV for spreadsheets, and events for TensorBoard."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.palette import SERIES
from octofold_game.system.files import naming, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_POINTS = 400
_SMOOTHED_OVER = 0.04
"""The smooth curve averages over this share of the reports, with weights that fall toward both ends."""


@dataclass(frozen=True)
class Curves:
    """The panels of a picture: titles by fields of the reports, and the scale of the first panel."""

    titles: dict[str, str]
    scale: str = "linear"


def draw_curves(history: Sequence[dict[str, Any]], file: Path, curves: Curves) -> None:
    """Draw a panel for each field of `curves` against the positions learned from, as a PNG.

    `history` contains the reports of a run in order, each with `positions` and those fields; a missing value
    is None. A panel is 750 x 570 pixels. Behind the smooth curve are the averages of neighboring reports, so
    that a long run stays readable; the last value of the smooth curve is written beside it.
    """
    if not history:
        return
    from matplotlib.figure import Figure  # here: the imports take a second, and not every command draws
    from octofold_game.drawing.figures import save, styled

    with styled():
        figure = Figure(figsize=(5 * len(curves.titles), 3.8), layout="constrained")
        panels = figure.subplots(1, len(curves.titles), squeeze=False)[0]
        positions = np.array([report["positions"] for report in history], float)
        for number, (panel, (name, title)) in enumerate(zip(panels, curves.titles.items(), strict=True)):
            values = np.array([report[name] for report in history], float)  # None, for no value, becomes NaN
            if number == 0:
                panel.set_yscale(curves.scale)
            _draw(panel, positions, values, is_share=name == "accuracy")
            panel.set_title(title, loc="left", fontsize="medium")
        save(figure, file)


def _draw(
    panel: Axes, positions: NDArray[np.float64], values: NDArray[np.float64], *, is_share: bool
) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    known = ~np.isnan(values)
    positions, values = positions[known], values[known]
    divisor, unit = (1e6, "millions") if positions.max(initial=0) >= 1e6 else (1e3, "thousands")
    panel.set_xlabel(f"positions learned from ({unit})")
    panel.grid()
    wide = panel.get_yscale() == "log" and values.max(initial=0) > 10 * values.min(initial=np.inf)
    locator = LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])
    panel.yaxis.set_major_locator(locator)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _format_value(value, is_share)))
    panel.yaxis.set_minor_formatter(NullFormatter())
    if not len(values):
        return
    groups = np.array_split(np.arange(len(values)), min(_POINTS, len(values)))
    places = np.array([positions[group].mean() for group in groups]) / divisor
    panel.plot(places, [values[group].mean() for group in groups], color=SERIES[0], alpha=0.35, linewidth=0.9)
    smoothed = smooth(values)
    panel.plot(places, [smoothed[group].mean() for group in groups], color=SERIES[0], linewidth=1.8)
    panel.annotate(
        _format_value(float(smoothed[-1]), is_share),
        (float(places[-1]), float(smoothed[groups[-1]].mean())),
        (5, 0),
        textcoords="offset points",
        va="center",
        fontweight="bold",
        annotation_clip=False,
    )


def smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A moving average of values `[N]`, with a smaller window near both ends."""
    reach = int(len(values) * _SMOOTHED_OVER)
    weights = np.hanning(2 * reach + 3)[1:-1]
    return np.convolve(values, weights, "same") / np.convolve(np.ones(len(values)), weights, "same")


def _format_value(value: float, is_share: bool) -> str:
    if is_share:
        return f"{value:.1%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


Report = Mapping[str, Any]


def write_csv(reports: Sequence[Report], file: Path) -> None:
    """Write reports as rows, with the names of their fields on top; None is an empty cell."""
    if not reports:
        return
    with whole_file(file) as partial, partial.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.DictWriter(opened, list(reports[-1]), extrasaction="ignore", restval="")
        rows.writeheader()
        rows.writerows(reports)


def by_epoch(reports: Sequence[Report]) -> list[Report]:
    """One report for each epoch: loss and accuracy averaged over its positions, all else as at its end.

    No report may reach over the end of an epoch.
    """
    found: list[Report] = []
    before = 0
    for number, group in groupby(reports, lambda report: math.ceil(report["epoch"])):
        parts = list(group)
        sizes = [end - start for start, end in pairwise([before, *(part["positions"] for part in parts)])]
        weighted = {
            name: sum(part[name] * size for part, size in zip(parts, sizes, strict=True))
            for name in ("loss", "accuracy")
        }
        averages = {name: round(total / sum(sizes), 5) for name, total in weighted.items()}
        found.append({**parts[-1], "epoch": number, **averages})
        before = parts[-1]["positions"]
    return found


@contextmanager
def tensorboard_events(folder: Path, reports: Sequence[Report]) -> Iterator[Callable[[Report], None]]:
    """A function that adds a report to `folder` for TensorBoard; the step is the position.

    The events there are replaced by those of the reports so far.
    """
    # Only now: it loads slowly, and most commands do without. Its SummaryWriter has a thread and a queue, on
    # which Ctrl-C could leave a lock; its writer of events has neither.
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    writer = EventsWriter(str(folder / "events"), "")

    def add(report: Report) -> None:
        for name, value in report.items():
            if isinstance(value, int | float) and name not in ("positions", "seconds"):
                event = Event(wall_time=report["seconds"], step=report["positions"])
                event.summary.CopyFrom(scalar(name, value))
                writer.write_event(event)
        with naming(folder):
            writer.flush()

    try:
        for report in reports:
            add(report)
        yield add
    finally:
        with naming(folder):  # it writes what could not be written before
            writer.close()
