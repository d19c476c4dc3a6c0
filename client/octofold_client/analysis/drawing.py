"""The style of all pictures, and saving them as PNG files.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from octofold_game.files import whole_file

_INCHES, _DOTS_PER_INCH = (8.0, 4.5), 120


def canvas(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure with a title and labeled axes."""
    # pyplot would look for a screen and keep every figure in memory.
    figure = Figure(figsize=_INCHES, layout="tight")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    return figure, axes


def save(figure: Figure, file: Path) -> None:
    """Write a PNG file.

    Raises:
        OSError: the file cannot be written.
    """
    figure.tight_layout()
    with whole_file(file) as partial:
        # Without metadata, equal pictures give equal files.
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
