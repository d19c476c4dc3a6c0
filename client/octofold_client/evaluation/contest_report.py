"""Writes the files of a comparison: `comparison.json` for programs and `comparison.md` for people."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES
from octofold_game.system.files import write_text

from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.contest import Contest, Standing
from octofold_client.evaluation.report import ASSUMPTIONS, percents
from octofold_client.evaluation.sequential import CAP_MULTIPLE
from octofold_client.wording import aligned, decimals_for, listed

JSON_FILE, REPORT_FILE = "comparison.json", "comparison.md"

Rows = list[tuple[str, ...]]
"""The cells of a table; the first row contains its headings."""
_MOST_NAMED = 3
"""Maximum number of pairs that a sentence names."""


def markdown(contest: Contest) -> str:
    """Return the report as Markdown: the tables, then the result in words."""
    if len(contest.pairs) == 1:
        tables = [_rows_of_two(contest)]
    else:
        tables = [rows for rows in (league_rows(contest), pair_rows(contest)) if len(rows) > 1]
    parts = ["\n".join(aligned(rows)) for rows in tables]
    return "\n\n".join([*parts, *sentences(contest)])


def sentences(contest: Contest) -> list[str]:
    """Return the sentences that follow the tables of the report."""
    said = [] if any(pair.unfinished for pair in contest.pairs) else [ASSUMPTIONS]
    if len(contest.pairs) == 1:
        said.append(contest.pairs[0].sentence)
    else:
        said += [
            f"{standing.side.name}: {standing.side.completeness.reason}"
            for standing in contest.standings
            if not standing.side.finished
        ]
        said.append(_significance(contest))
    return said


def write_files(contest: Contest, folder: Path) -> None:
    """Write `comparison.json` and `comparison.md` into the folder.

    Raises:
        OSError: a file cannot be written.
    """
    write_text(folder / JSON_FILE, json.dumps(contest.to_json(), indent=2) + "\n")
    write_text(folder / REPORT_FILE, markdown(contest) + "\n")


def _headings(contest: Contest) -> tuple[str, ...]:
    """Return the headings of a player's figures, including the luck-adjusted ones if there are any."""
    adjusted = any(standing.adjusted is not None for standing in contest.standings)
    without = ("without luck", "its 95% interval") if adjusted else ()
    return ("average score", "95% interval", *without, "median", "best")


def _figures_of(standing: Standing, number: int) -> tuple[str, ...]:
    """Return `number` figures of a player, one for each of `_headings`; empty texts if games are missing."""
    if standing.average is None:
        return ("",) * number
    median, best = np.median(standing.scores), standing.scores.max()
    figures = [f"{standing.average:,.0f}", _range(standing.interval), f"{median:,.0f}", f"{best:,}"]
    if number > len(figures):
        adjusted = standing.adjusted
        known = ["", ""] if adjusted is None else [f"{adjusted.average:,.0f}", _range(adjusted.interval)]
        figures[2:2] = known
    return tuple(figures)


def _rows_of_two(contest: Contest) -> Rows:
    (pair,) = contest.pairs
    headings = _headings(contest)
    columns = [_figures_of(standing, len(headings)) for standing in contest.standings]
    rows = [("", pair.first.name, pair.second.name), *zip(headings, *columns, strict=True)]
    if not pair.unfinished:
        low, high = pair.won_interval
        rows.append(("games won", f"{1 - pair.won_by_second:.1%}", f"{pair.won_by_second:.1%}"))
        rows.append(("95% interval", percents((1 - high, 1 - low)), percents((low, high))))
    return rows


def league_rows(contest: Contest) -> Rows:
    """Return the headings of the league table and a row for each player, the best player first."""
    headings = _headings(contest)
    rows = []
    for standing in contest.ranked:
        figures = _figures_of(standing, len(headings))
        rows.append((standing.side.name, standing.rank_in_words, f"{len(standing.scores):,}", *figures))
    return [("player", "rank", "games", *headings), *rows]


def pair_rows(contest: Contest) -> Rows:
    """Return the headings and a row for each pair without missing games, the largest difference first."""
    pairs = [pair for pair in contest.pairs if not pair.unfinished]
    stopped = contest.pairs[0].stopped
    heading = ["difference in score", "average", "95% interval", "p"]
    if stopped:
        heading[1:] = ["average", "up to the cap", "its 95% interval"]
    rows = []
    for pair in sorted(pairs, key=lambda pair: -abs(pair.deciding_difference[0])):
        better, worse, shown, interval = pair.lead
        plain = pair.difference if better == pair.second.name else -pair.difference
        p_value = "" if pair.p_value is None else f"{pair.p_value:.4f}" if pair.p_value >= 1e-4 else "<0.0001"
        rest = (f"{shown:+,.0f}", _range(interval, "+")) if stopped else (_range(interval, "+"), p_value)
        rows.append((f"{better} over {worse}", f"{plain:+,.0f}", *rest))
    return [tuple(heading), *rows]


def _significance(contest: Contest) -> str:
    pairs = [pair for pair in contest.pairs if not pair.unfinished]
    if not pairs:
        return "No pair can be compared, because games are missing."
    stopped = pairs[0].stopped
    valid = (
        "The 95% intervals of the differences and the ranks are simultaneously valid"
        + (" at any look (Bonferroni correction)." if stopped else " (single-step max-t correction).")
        + _cap_note(pairs)
    )
    unclear = [pair for pair in pairs if not pair.clear]
    if not unclear:
        return f"Every difference is significant. {valid}"
    names = listed(f"{pair.first.name} and {pair.second.name}" for pair in unclear)
    if len(unclear) > _MOST_NAMED:
        names = f"the players of {len(unclear)} of {len(pairs)} pairs, whose intervals contain 0"
    return (
        f"No significant difference between {names}: either may be the better one, so their ranks are "
        f"ranges. {valid}"
    )


def _cap_note(pairs: Sequence[Comparison]) -> str:
    """Return sentences about the cap and each player's share of games above the cap; empty without a cap."""
    shares = {name: share for pair in pairs for name, share in pair.above_cap.items()}
    if not shares:
        return ""
    assert pairs[0].bets is not None
    told = listed(
        f"{share:.1%} (95% interval {percents(interval)}) of the games of {name}"
        for name, (share, interval) in shares.items()
    )
    return (
        f" For the intervals, scores count up to a cap of {pairs[0].bets.cap:,}, {CAP_MULTIPLE} times the "
        f"largest average of the first {FIRST_GAMES} games. These games only set the cap. {told} score more."
    )


def _range(interval: Interval | None, sign: str = "") -> str:
    if interval is None:
        return ""
    decimals = decimals_for(interval, [0])
    return " to ".join(f"{limit:{sign},.{decimals}f}" for limit in interval)
