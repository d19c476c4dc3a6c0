"""The report of an evaluation: average, median, best score and the share of games that reached each tile.

`summary.py` describes the intervals.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from octofold_game.contract.model import Interval
from octofold_game.contract.results import random_note

from octofold_client.evaluation.intervals import MIN_GAMES
from octofold_client.evaluation.luck import AdjustedAverage
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.summary import Summary
from octofold_client.wording import aligned

HEADINGS = ("", "measured", "95% interval")
WITHOUT_LUCK = "average without luck"
INTERVAL_METHODS = (
    f"Intervals: Student's for averages (from {MIN_GAMES} games on), order statistics for the median, "
    "Wilson's for shares."
)
ASSUMPTIONS = (
    "The intervals assume independent games and a player that does not change. Scores so rare that no game "
    "has reached them affect neither the average nor its interval."
)


@dataclass(frozen=True)
class SummaryRow:
    """A row of the table: a figure with its interval."""

    label: str
    measured: str
    interval: str


def rows_of(
    summary: Summary, *others: Summary, adjusted: AdjustedAverage | None = None
) -> tuple[list[SummaryRow], list[SummaryRow]]:
    """Return the rows about scores and lengths, and the rows about tiles.

    `adjusted` is the luck-adjusted average. The tiles range from the largest that every game reached to the
    smallest that no game reached, in this summary and in `others`.
    """
    tables = [each.reached for each in (summary, *others)]
    first = max(0, min(sum(row.share == 1 for row in table) for table in tables) - 1)
    last = max(sum(row.games > 0 for row in table) for table in tables)
    without = [] if adjusted is None else [(adjusted.average, adjusted.interval)]
    error = summary.average_standard_error
    figures = [
        SummaryRow("average score", f"{summary.average:,.0f}", _limits(summary.average_interval)),
        *(SummaryRow(WITHOUT_LUCK, f"{average:,.0f}", _limits(interval)) for average, interval in without),
        SummaryRow("standard error", "" if error is None else f"{error:,.0f}", ""),
        SummaryRow("median score", f"{summary.median:,.0f}", _limits(summary.median_interval)),
        SummaryRow("best score", f"{summary.best:,}", ""),
        SummaryRow(
            "moves per game", f"{summary.moves_per_game:,.0f}", _limits(summary.moves_per_game_interval)
        ),
    ]
    tiles = [
        SummaryRow(f"reached {row.tile}", f"{row.share:.1%}", percents(row.interval))
        for row in summary.reached[first : last + 1]
    ]
    return figures, tiles


def report(evaluation: Evaluation, pictures: Iterable[str] = ()) -> str:
    """Return the report as Markdown: the table, the largest tiles and the conditions.

    `pictures` are the names of image files in the folder of the report.
    """
    summary, conditions, run = evaluation.summary, evaluation.conditions, evaluation.run
    figures = []
    if summary is not None:
        largest = [
            (f"{row.tile}", f"{row.games:,}", f"{row.share:.1%}", percents(row.interval))
            for row in summary.largest_tiles
        ]
        figures = [
            "\n".join(aligned([("largest tile", "games", "share", "95% interval"), *largest])),
            INTERVAL_METHODS,
        ]
    facts = [
        ("model", conditions.player),
        ("SHA-256", conditions.sha256),
        ("decision rule", evaluation.decision_rule),
        ("precision", conditions.precision),
        ("octofold-serve", evaluation.server_version),
        ("moves/s", f"{run.moves_per_second:,.0f}" if run and run.moves_per_second else None),
    ]
    parts = [
        markdown(evaluation),
        *figures,
        "\n".join(aligned([("", "played with"), *((name, fact) for name, fact in facts if fact)])),
        *(f"![{Path(name).stem.replace('-', ' ')}]({name})" for name in pictures),
    ]
    return "\n\n".join(parts) + "\n"


def markdown(evaluation: Evaluation) -> str:
    """Return the title, the table and the notes of an evaluation as Markdown."""
    parts = [f"**{evaluation.title}**"]
    if evaluation.summary is not None:
        figures, tiles = rows_of(evaluation.summary, adjusted=evaluation.adjusted)
        cells = [HEADINGS, *((row.label, row.measured, row.interval) for row in figures + tiles)]
        parts.append("\n".join(aligned(cells)))
    return "\n\n".join([*parts, *notes_of(evaluation)])


def notes_of(evaluation: Evaluation) -> list[str]:
    """Return the warnings and notes about the figures, or only `completeness.reason` if games are missing."""
    summary = evaluation.summary
    if summary is None:
        return [evaluation.completeness.reason]
    adjusted = "" if evaluation.adjusted is None else evaluation.adjusted.note
    return list(filter(None, [*warnings_of(summary), ASSUMPTIONS, adjusted]))


def warnings_of(summary: Summary) -> list[str]:
    """Return the warnings: that the player may play at random, and which games exceeded its largest tile."""
    warnings = list(filter(None, [random_note(summary.average, summary.average_interval)]))
    if count := len(summary.outgrown_games):
        named = ", ".join(map(str, summary.outgrown_games[:20])) + (", ..." if count > 20 else "")
        games, they = ("game", "it") if count == 1 else ("games", "they")
        warnings.append(
            f"{count} {games} ended because {they} exceeded the player's largest tile: {games} {named}."
        )
    return warnings


def _limits(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval[0]:,.0f} to {interval[1]:,.0f}"


def percents(interval: Interval) -> str:
    """Format the interval of a share, such as "1.2 to 3.4%"."""
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}%"
