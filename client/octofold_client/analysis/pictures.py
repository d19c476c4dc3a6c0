"""The pictures of an evaluation and of its analysis: PNG files beside the reports.

This module needs matplotlib, which is not part of the base installation. Import it only to draw.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from octofold_client.analysis.drawing import canvas, save
from octofold_client.analysis.endings import QUARTERS, Analysis
from octofold_client.analysis.trajectories import Climb
from octofold_client.contenders.judges import PROBABILITY, Judge
from octofold_client.evaluation.result import Evaluation

_WIDE_INCHES = (11.0, 4.5)
_FEW = 10
"""A curve ends where fewer games than this are left, because it would then show single games."""
_BLUE, _ORANGE = "#3b6fb6", "#d9822b"
_SHADES = ("#dbe7f5", "#a9c4e4", "#6f9bd1", "#3b6fb6", "#1f3f6e")


def figures(evaluation: Evaluation, climb: Climb) -> dict[str, Figure]:
    """All pictures by name."""
    return {
        "score-distribution": _scores(evaluation),
        "survival-by-move": _survival(evaluation),
        "tiles-reached": _tiles(evaluation),
        "score-by-move": _climb(evaluation, climb),
    }


def draw(folder: Path, evaluation: Evaluation, climb: Climb) -> list[str]:
    """Save all pictures in `folder` and return the names of their files.

    Raises:
        OSError: a file cannot be written.
    """
    files = {f"{name}.png": figure for name, figure in figures(evaluation, climb).items()}
    for name, figure in files.items():
        save(figure, folder / name)
    return list(files)


def draw_analysis(folder: Path, analysis: Analysis, title: str, judge: Judge | None) -> str:
    """Save a picture of the endings and, if judged, of the costs in `folder`; return the name of its file.

    Raises:
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=_WIDE_INCHES)
    judged = judge is not None and bool(analysis.verdicts.judged.any())
    panels = figure.subplots(1, 2 if judged else 1, squeeze=False)[0]
    _endings(panels[0], analysis)
    if judge is not None and judged:
        _costs(panels[1], analysis, judge)
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium", parse_math=False)
    save(figure, folder / "where-games-are-lost.png")
    return "where-games-are-lost.png"


def _endings(axes: Axes, analysis: Analysis) -> None:
    rows = analysis.endings_by_tile()
    places = np.arange(len(rows))
    below = np.zeros(len(rows))
    for quarter, label in enumerate(QUARTERS):
        games = np.array([counts[quarter] for _, counts in rows], float)
        axes.bar(places, games, bottom=below, label=label, color=_SHADES[quarter])
        below += games
    axes.set_xticks(places, [str(tile) for tile, _ in rows])
    axes.set_xlabel("largest tile at the end")
    axes.set_ylabel("games")
    axes.set_ylim(top=1.5 * float(below.max()))  # room for the legend
    axes.legend(
        title="other tiles, as a share of it",
        ncols=2,
        loc="upper left",
        fontsize="small",
        title_fontsize="small",
    )
    axes.grid(alpha=0.25, axis="y")


def _costs(axes: Axes, analysis: Analysis, judge: Judge) -> None:
    groups = [group for group in reversed(analysis.by_distance()) if group.judged]
    places = np.arange(len(groups))
    axes.bar(places, [group.cost or 0.0 for group in groups], color=_ORANGE, alpha=0.8)
    axes.set_xticks(places, [group.label for group in groups], fontsize="small")
    axes.set_title(f"judged by {judge.name}", fontsize="medium", parse_math=False)
    axes.set_xlabel("moves to the end")
    axes.set_ylabel(f"cost of a move, {judge.unit}", color=_ORANGE)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda cost, _: f"{cost:.1%}" if judge.unit == PROBABILITY else f"{cost:,.0f}")
    )
    agreement = axes.twinx()
    agreement.plot(places, [group.agreement or 0.0 for group in groups], "o-", color=_BLUE)
    agreement.set_ylim(0, 1.02)
    agreement.set_ylabel("agreement", color=_BLUE)
    agreement.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))


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
    figure, axes = canvas(evaluation.title, x, y)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure, axes
