"""The style of all pictures, and functions that save them as PNG or SVG.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from octofold_game.drawing.palette import INK
from octofold_game.system.files import atomic_write

DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Size:
    """The width and height of a picture in inches, and whether it has a title."""

    width: float
    height: float
    titled: bool
    """Whether the picture contains its title. In a report, the page shows the title instead."""


WIDE = Size(8.0, 4.6, titled=True)
"""Size of a picture in its own file."""
COMPACT = Size(4.5, 3.2, titled=False)
"""Size of a picture in a report, which must be readable on a phone."""

_STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "text.parse_math": False,  # a dollar sign in the name of a player does not begin a formula
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.color": INK,
    "grid.alpha": 0.16,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "legend.title_fontsize": "small",
    "svg.fonttype": "none",
    "svg.hashsalt": "octofold",
    "svg.image_inline": True,
}


def styled() -> AbstractContextManager[None]:
    """Apply the style of all pictures; make and save figures inside the block."""
    return matplotlib.rc_context(_STYLE)


def new_figure(size: Size, title: str, subtitle: str = "", height: float | None = None) -> Figure:
    """Make an empty figure. If `size.titled`, it shows the title and the subtitle."""
    # Do not use pyplot: its figures need a screen and stay in memory.
    figure = Figure(figsize=(size.width, height or size.height), layout="constrained")
    if size.titled:
        inches = figure.get_figheight()
        figure.text(0.01, 1 - 0.06 / inches, title, va="top", fontsize=12.5, fontweight="bold")
        figure.text(0.01, 1 - 0.3 / inches, subtitle, va="top", fontsize=9.5, alpha=0.75)
        figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - 0.5 / inches))
    return figure


def whole_numbers(axes: Axes, axis: str, most: int = 6) -> None:
    """Label the x or y axis with at most `most` whole numbers, such as 50,000."""
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    chosen.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 2.5, 5, 10]))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def percents(axes: Axes) -> None:
    """Label the y axis with percentages."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))


def legend_label(name: str) -> str:
    """Return a label for a legend. A leading "_" gets a space before it, because legends skip such labels."""
    return f" {name}" if name.startswith("_") else name


def shortened(name: str, most: int = 40) -> str:
    """Shorten a name so that it fits into a picture."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def write_above(axes: Axes, text: str, x: float, y: float, size: str = "small", rotation: float = 0) -> None:
    """Write a value just above a bar or a point."""
    axes.annotate(
        text,
        (x, y),
        (0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=size,
        rotation=rotation,
    )


def save(figure: Figure, file: Path) -> None:
    """Write a PNG file.

    Raises:
        OSError: the file cannot be written.
    """
    with styled(), atomic_write(file) as partial:
        if figure.get_layout_engine() is None:
            figure.tight_layout()
        # Without metadata, equal pictures give equal files.
        figure.savefig(partial, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})


def save_all(figures: dict[str, Figure], folder: Path) -> list[str]:
    """Write a PNG file for each figure and return the names of the files.

    Raises:
        OSError: a file cannot be written.
    """
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    return [f"{name}.png" for name in figures]


def svg_of(figure: Figure) -> bytes:
    """Return the figure as an SVG document, in which text is text and not outlines."""
    file = BytesIO()
    with styled():
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


def evenly_spaced(count: int) -> NDArray[np.intp]:
    """Return at most 400 evenly spaced indices of `count` values, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, 400)).round().astype(np.intp))
