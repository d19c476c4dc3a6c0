"""Training curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.drawing.palette import SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_POINTS = 400
_SMOOTHED_OVER = 0.04
"""Share of the reports, on each side, that the smooth curve averages. Farther reports weigh less."""


@dataclass(frozen=True)
class Curves:
    """The panels of a picture: titles, keyed by field of the reports, and the scale of the first panel."""

    titles: dict[str, str]
    scale: str = "linear"


def draw_curves(history: Sequence[dict[str, Any]], file: Path, curves: Curves) -> None:
    """Draw a PNG with a panel for each field of `curves`, against the number of positions learned from.

    `history` contains the reports of a run in order; without reports, no file is written. Every report has
    `positions` and the fields of `curves`; a missing value is None. A panel is 750 x 570 pixels. Averages of
    neighboring reports are drawn behind the smooth curve, with the curve's last value beside it.
    """
    if not history:
        return
    from matplotlib.figure import Figure  # takes a second
    from octofold_game.drawing.figures import save, styled

    with styled():
        figure = Figure(figsize=(5 * len(curves.titles), 3.8), layout="constrained")
        panels = figure.subplots(1, len(curves.titles), squeeze=False)[0]
        positions = np.array([report["positions"] for report in history], float)
        for number, (panel, (name, title)) in enumerate(zip(panels, curves.titles.items(), strict=True)):
            values = np.array([report[name] for report in history], float)  # None becomes NaN
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
    """Return a moving average of values `[N]`, with a smaller window near both ends."""
    reach = int(len(values) * _SMOOTHED_OVER)
    weights = np.hanning(2 * reach + 3)[1:-1]
    return np.convolve(values, weights, "same") / np.convolve(np.ones(len(values)), weights, "same")


def _format_value(value: float, is_share: bool) -> str:
    if is_share:
        return f"{value:.1%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
