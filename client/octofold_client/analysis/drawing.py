"""The look of all pictures, and how they are saved as PNG files.

Needs matplotlib, which is not part of the base install; import it only when pictures are asked for.
"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from octofold_game.files import whole_file

_INCHES, _DOTS_PER_INCH = (8.0, 4.5), 120


def canvas(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure with a title and the names of its axes."""
    # Without pyplot, which would look for a screen and keep every figure alive.
    figure = Figure(figsize=_INCHES, layout="tight")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    return figure, axes


def save(figure: Figure, file: Path) -> None:
    """Writes a PNG file. Raises `OSError`."""
    figure.tight_layout()
    with whole_file(file) as partial:
        # A dated file would differ from run to run.
        figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
