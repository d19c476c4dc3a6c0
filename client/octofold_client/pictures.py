"""The pictures of an evaluation, for people who were not there: PNG files beside its report.

The only module of the client that needs matplotlib; nothing imports it unless pictures are asked for.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from octofold_game.files import whole_file

from octofold_client.result_file import Evaluation
from octofold_client.trajectories import Climb

_INCHES, _DOTS_PER_INCH = (8.0, 4.5), 120
_FEW = 10
"""A curve stops where fewer games than this are left: it would show single games, not the player."""
_BLUE, _ORANGE = "#3b6fb6", "#d9822b"


def draw(folder: Path, evaluation: Evaluation, climb: Climb) -> list[str]:
    """Draws all pictures into `folder` and returns the names of their files. Raises `OSError`."""
    pictures = {
        "score-distribution.png": _scores(evaluation),
        "survival-by-move.png": _survival(evaluation),
        "tiles-reached.png": _tiles(evaluation),
        "score-by-move.png": _climb(evaluation, climb),
    }
    for name, figure in pictures.items():
        figure.tight_layout()
        with whole_file(folder / name) as partial:
            # A dated file would differ from run to run.
            figure.savefig(partial, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return list(pictures)


def _scores(evaluation: Evaluation) -> Figure:
    summary = evaluation.summary
    figure, axes = _canvas(evaluation, "score", "games")
    axes.hist([game.score for game in evaluation.games], bins="auto", color=_BLUE, alpha=0.8)
    axes.axvline(summary.average, color=_ORANGE, label=f"average {summary.average:,.0f}")
    if summary.average_bootstrap_interval is not None:
        axes.axvspan(*summary.average_bootstrap_interval, color=_ORANGE, alpha=0.25, label="its 95% interval")
    axes.axvline(summary.median, color="black", linestyle=":", label=f"median {summary.median:,.0f}")
    axes.legend()
    return figure


def _survival(evaluation: Evaluation) -> Figure:
    figure, axes = _canvas(evaluation, "move", "games still running")
    lengths = np.sort([game.moves for game in evaluation.games])
    left = 1 - np.arange(1, len(lengths) + 1) / len(lengths)
    axes.step(np.concatenate([[0], lengths]), np.concatenate([[1.0], left]), where="post", color=_BLUE)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    return figure


def _tiles(evaluation: Evaluation) -> Figure:
    figure, axes = _canvas(evaluation, "tile", "games that reached it")
    reached = evaluation.summary.reached
    shares = np.array([row.share for row in reached])
    limits = np.array([row.interval for row in reached])
    margins = np.maximum(0.0, [shares - limits[:, 0], limits[:, 1] - shares])
    places = np.arange(len(reached))
    axes.bar(places, shares, color=_BLUE, alpha=0.8, yerr=margins, capsize=4, ecolor="black")
    axes.set_xticks(places, [str(row.tile) for row in reached])
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    return figure


def _climb(evaluation: Evaluation, climb: Climb) -> Figure:
    figure, axes = _canvas(evaluation, "move", "score of the games still running")
    shown = int(np.count_nonzero(climb.running >= min(_FEW, len(evaluation.games))))
    moves, average, deviation = np.arange(1, shown + 1), climb.average[:shown], climb.deviation[:shown]
    axes.plot(moves, average, color=_BLUE, label="average")
    axes.fill_between(
        moves, average - deviation, average + deviation, color=_BLUE, alpha=0.25, label="± 1 deviation"
    )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda score, _: f"{score:,.0f}"))
    axes.legend()
    return figure


def _canvas(evaluation: Evaluation, x: str, y: str) -> tuple[Figure, Axes]:
    # Without pyplot, which would look for a screen and keep every figure alive.
    figure = Figure(figsize=_INCHES)
    axes = figure.add_subplot()
    axes.set_title(evaluation.title, loc="left", parse_math=False)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(alpha=0.25)
    return figure, axes
