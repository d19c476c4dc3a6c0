"""Training curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from octofold_game.files import whole_file

_POINTS = 200


def draw_curves(history: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw loss and accuracy against the positions learned from, as a PNG of 1200 x 500 pixels.

    `history` holds the reports of a run in order, each with `positions`, `loss` and `accuracy`. Each
    point averages neighbouring reports, so that a long run stays readable.
    """
    if not history:
        return
    groups = np.array_split(np.arange(len(history)), min(_POINTS, len(history)))
    figure = Figure(figsize=(12, 5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    titles = {
        "loss": "Loss: divergence from the teacher (nats)",
        "accuracy": "Accuracy: share of moves that are the teacher's",
    }
    millions = [np.mean([history[i]["positions"] for i in group]) / 1e6 for group in groups]
    for panel, (name, title) in zip(panels, titles.items(), strict=True):
        panel.plot(millions, [np.mean([history[i][name] for i in group]) for group in groups])
        panel.set_title(title)
        panel.set_xlabel("positions (millions)")
        panel.grid(alpha=0.3)
    panels[0].set_yscale("log")
    with whole_file(file) as partial:
        figure.savefig(partial, format="png")
