"""Training curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from octofold_game.files import whole_file

_POINTS = 200


@dataclass(frozen=True)
class Curves:
    """The panels of a picture: titles by fields of the reports, and the scale of the first panel."""

    titles: dict[str, str]
    scale: str = "linear"


def draw_curves(history: Sequence[dict[str, Any]], file: Path, curves: Curves) -> None:
    """Draw a panel for each field of `curves` against the positions learned from, as a PNG.

    `history` contains the reports of a run in order, each with `positions` and those fields; a missing value
    is None. A panel is 600 x 500 pixels. Each point is the average of neighboring reports, so that a long run
    stays readable.
    """
    if not history:
        return
    groups = np.array_split(np.arange(len(history)), min(_POINTS, len(history)))
    figure = Figure(figsize=(6 * len(curves.titles), 5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(curves.titles), squeeze=False)[0]
    millions = [np.mean([history[i]["positions"] for i in group]) / 1e6 for group in groups]
    for panel, (name, title) in zip(panels, curves.titles.items(), strict=True):
        values = np.array([report[name] for report in history], float)  # None, for no value, becomes NaN
        known = [values[group][~np.isnan(values[group])] for group in groups]
        panel.plot(millions, [each.mean() if len(each) else np.nan for each in known])
        panel.set_title(title)
        panel.set_xlabel("positions (millions)")
        panel.grid(alpha=0.3)
    panels[0].set_yscale(curves.scale)
    with whole_file(file) as partial:
        figure.savefig(partial, format="png")
