"""Writes the rebuilt tables beside the published ones, as Markdown, JSON and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from octofold_game.drawing.figures import save
from octofold_game.system.files import write_text

from octofold_papers.supervised.published import ROWS, TILES
from octofold_papers.supervised.results import Result

PUBLISHED_POSITIONS = 6e8
_LEAST_POINTS = 4
_QUANTILES = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5% quantiles of Student's t distribution for 2, 3, ... degrees of freedom."""


def write_report(results: Sequence[Result], folder: Path) -> str:
    """Write `table.md`, `results.json` and `scores.png`, and return the Markdown."""
    text = markdown(results)
    write_text(folder / "table.md", text)
    write_text(folder / "results.json", json.dumps([asdict(result) for result in results], indent=2) + "\n")
    _draw(results, folder / "scores.png")
    return text


def markdown(results: Sequence[Result]) -> str:
    """Return Markdown tables: scores and largest tiles after the last stage, and the curves."""
    last = _last(results)
    return "\n".join([*_scores(last), "", *_largest(last), "", *_curves(results, last), ""])


def _last(results: Sequence[Result]) -> list[Result]:
    """Return the result with the most positions for each network and number of views."""
    found: dict[tuple[str, int], Result] = {}
    for result in results:
        key = (result.row, result.views)
        if key not in found or result.positions > found[key].positions:
            found[key] = result
    order = list(ROWS)
    return sorted(found.values(), key=lambda result: (order.index(result.row), result.views))


def _scores(results: Sequence[Result]) -> list[str]:
    lines = [
        "| network | weights | views | positions | agreement | games | average (95% interval) "
        "| published | best | published | reaches 2048 | published |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in results:
        theirs = ROWS[each.row].published.get(each.views)
        cells = [
            each.row,
            f"{each.weights:,}",
            str(each.views),
            f"{each.positions:,}",
            f"{each.accuracy:.1%}",
            f"{each.games:,}",
            f"{each.average:,.0f}" + ("" if each.error is None else f" ± {each.error:,.0f}"),
            f"{theirs.average:,.0f}" if theirs else "",
            f"{each.best:,}",
            f"{theirs.best:,}" if theirs else "",
            f"{each.reaches_2048:.1%}",
            f"{theirs.reaches_2048:.1%}" if theirs else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _largest(results: Sequence[Result]) -> list[str]:
    names = [f"{tile}" if number else f"up to {tile}" for number, tile in enumerate(TILES)]
    lines = [f"| largest tile | views | {' | '.join(names)} |", f"|---|---:|{'---:|' * len(TILES)}"]
    for each in results:
        shares = [f"{share:.1%}" for share in each.largest]
        lines.append(f"| {each.row} | {each.views} | {' | '.join(shares)} |")
        theirs = ROWS[each.row].published.get(each.views)
        if theirs and theirs.largest:
            shares = [f"{count / 1000:.1%}" for count in theirs.largest]
            lines.append(f"| published | {each.views} | {' | '.join(shares)} |")
    return lines


def _curves(results: Sequence[Result], last: Sequence[Result]) -> list[str]:
    """Return a table of average scores by number of positions, with extrapolated scores."""
    stages = sorted({each.positions for each in results})
    lines = [
        f"| average | views | {' | '.join(f'{stage:,}' for stage in stages)} "
        f"| extrapolated to {PUBLISHED_POSITIONS:,.0f} (95% interval) |",
        f"|---|---:|{'---:|' * len(stages)}---:|",
    ]
    for network in last:
        curve = {
            each.positions: each for each in results if (each.row, each.views) == (network.row, network.views)
        }
        cells = [f"{curve[stage].average:,.0f}" if stage in curve else "" for stage in stages]
        line = extrapolate(list(curve.values()))
        leads_to = "" if line is None else f"{line.average:,.0f} ({line.low:,.0f} to {line.high:,.0f})"
        lines.append(f"| {network.row} | {network.views} | {' | '.join(cells)} | {leads_to} |")
    return lines


def _draw(results: Sequence[Result], file: Path) -> None:
    """Draw score against positions, a line per network, as in figure 7 of Kondo and Matsuzaki, 2019."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    panel = figure.subplots()
    panel.set_prop_cycle(color=list(colormaps["tab20"](range(20))))  # more colors than networks
    for name, row in ROWS.items():
        points = sorted(
            (each.positions, each.average, each.error or 0.0)
            for each in results
            if each.row == name and each.views == row.main_views
        )
        if points:
            positions, averages, errors = zip(*points, strict=True)
            style = {"report": "-", "Kondo": "--"}[row.paper]
            panel.errorbar(positions, averages, errors, label=name, linestyle=style, capsize=2)
    panel.set_xscale("log")
    stages = sorted({each.positions for each in results})
    panel.set_xticks(stages, [f"{stage:,}" for stage in stages])
    panel.minorticks_off()
    panel.set_xlabel("positions learned from")
    panel.set_ylabel("average score")
    panel.grid(alpha=0.3)
    if panel.has_data():
        figure.legend(fontsize="small", loc="outside right upper")
    save(figure, file)


class Extrapolation(NamedTuple):
    """An extrapolated average score, with the 95% interval of the line."""

    average: float
    low: float
    high: float


def extrapolate(curve: Sequence[Result]) -> Extrapolation | None:
    """Extrapolate the average to the published number of positions, by a line on logarithmic axes.

    The weight of a stage is the inverse square of its interval. If the stages scatter around the line more
    than their intervals suggest, the interval of the result is widened in the same ratio. The interval does
    not account for a later bend of the line.

    Returns:
        The extrapolation, or None if fewer than four stages have an interval.
    """
    points = [each for each in curve if each.error and each.average > 0]
    if len(points) < _LEAST_POINTS:
        return None
    averages = np.array([each.average for each in points])
    errors = np.array([each.error for each in points], float) / 1.96 / averages
    x, y = np.log([each.positions for each in points]), np.log(averages)
    slopes, covariance = np.polyfit(x, y, 1, w=1 / errors, cov="unscaled")
    freedom = len(points) - 2
    scatter = (((y - np.polyval(slopes, x)) / errors) ** 2).sum() / freedom
    there = np.array([np.log(PUBLISHED_POSITIONS), 1.0])
    quantile = _QUANTILES[min(freedom - 2, len(_QUANTILES) - 1)]
    width = quantile * np.sqrt(there @ covariance @ there * max(1.0, scatter))
    return Extrapolation(*(float(np.exp(there @ slopes + side)) for side in (0.0, -width, width)))
