"""The files of a comparison: `comparison.json` for programs and `comparison.md` for people."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES
from octofold_game.system.files import write_text

from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.sequential import CAP
from octofold_client.evaluation.tables import missing_note
from octofold_client.wording import aligned, decimals_for, listed

JSON_FILE, REPORT_FILE = "comparison.json", "comparison.md"
UNPAIRED = (
    "The seeds differ, so the players did not play the same games. The games are not paired, and equal luck "
    "does not cancel out."
)
PARTLY_PAIRED = (
    "Players with different seeds did not play the same games, so their games are not paired, and equal luck "
    "does not cancel out. Those with the same seed are compared game by game."
)


def markdown(contest: Contest) -> str:
    """The tables and, below them, the result in words."""
    parts = [_two(contest.pairs[0])] if len(contest.pairs) == 1 else [_league(contest), _pairs(contest)]
    return "\n\n".join([*parts, *sentences(contest)])


def sentences(contest: Contest) -> list[str]:
    """The result in words, without the figures of the tables."""
    said = [
        f"{standing.side.name}: {missing_note(standing.missing_games)}"
        for standing in contest.standings
        if standing.missing_games
    ]
    if not contest.paired:
        said.append(PARTLY_PAIRED if any(pair.paired for pair in contest.pairs) else UNPAIRED)
    return [*said, contest.pairs[0].sentence if len(contest.pairs) == 1 else _explained(contest)]


def figures(contest: Contest) -> list[str]:
    """The league table in words, for reports that have tables of their own."""
    return [
        f"{standing.side.name}: rank {standing.rank_in_words}, {standing.average:,.0f} points on average"
        + ("" if standing.interval is None else f" (95% interval {_range(standing.interval)})")
        + f" in the {len(standing.scores):,} games that are compared."
        for standing in contest.ranked
    ]


def write_files(contest: Contest, folder: Path, pictures: Iterable[str] = ()) -> None:
    """Write both files; `pictures` are the names of image files beside them.

    Raises:
        OSError: a file cannot be written.
    """
    images = "".join(f"\n\n![comparison]({name})" for name in pictures)
    write_text(folder / JSON_FILE, json.dumps(contest.to_json(), indent=2) + "\n")
    write_text(folder / REPORT_FILE, markdown(contest) + images + "\n")


def _two(pair: Comparison) -> str:
    ours, theirs = pair.first_scores, pair.second_scores
    won = pair.won_by_second
    rows = [
        ("", pair.first, pair.second),
        ("average score", f"{ours.mean():,.0f}", f"{theirs.mean():,.0f}"),
        ("median score", f"{np.median(ours):,.0f}", f"{np.median(theirs):,.0f}"),
        ("best score", f"{ours.max():,}", f"{theirs.max():,}"),
        ("games won", f"{1 - won:.1%}", f"{won:.1%}"),
    ]
    return "\n".join(aligned(rows))


def _league(contest: Contest) -> str:
    rows = [
        (
            standing.side.name,
            standing.rank_in_words,
            f"{len(standing.scores):,}",
            f"{standing.average:,.0f}",
            _range(standing.interval),
            f"{np.median(standing.scores):,.0f}",
            f"{standing.scores.max():,}",
        )
        for standing in contest.ranked
    ]
    heading = ("player", "rank", "games", "average score", "95% interval", "median", "best")
    return "\n".join(aligned([heading, *rows]))


def _pairs(contest: Contest) -> str:
    """Every pair, the better player first, the largest difference first."""
    rows = []
    for pair in sorted(contest.pairs, key=lambda pair: -abs(pair.difference)):
        better, worse, difference, interval = pair.lead
        p_value = "" if pair.p_value is None else f"{pair.p_value:.4f}" if pair.p_value >= 1e-4 else "<0.0001"
        figures = (f"{difference:+,.0f}", _range(interval, "+"), p_value)
        rows.append((f"{better} over {worse}", *figures, *_cap(pair, better)))
    heading = ("difference in score", "average", "95% interval", "p", "scores up to", "games above")
    shown = [place for place in range(len(heading)) if place < 3 or any(row[place] for row in rows)]
    return "\n".join(aligned([tuple(row[place] for place in shown) for row in (heading, *rows)]))


def _cap(pair: Comparison, better: str) -> tuple[str, str]:
    """The cap of a pair, and the shares of both players' games above it, the better player's first."""
    if pair.bets is None or pair.bets.cap is None or pair.bets.above_cap is None:
        return "", ""
    first, second = (f"{share:.1%}" for share in pair.bets.above_cap)
    return f"{pair.bets.cap:,}", f"{first}, {second}" if better == pair.first else f"{second}, {first}"


def _explained(contest: Contest) -> str:
    first = contest.pairs[0]
    how = "by Bonferroni" if first.looked_at_on_the_way else "by the largest of all differences"
    stop = ", at any stop" if first.looked_at_on_the_way else ""
    valid = f"The intervals of the differences and the ranks are valid together{stop}, corrected {how}."
    if any(pair.bets is not None and pair.bets.cap is not None for pair in contest.pairs):
        valid += (
            f" In a difference, scores count up to {CAP} times the average of the player that was named "
            f"first, in the first {FIRST_GAMES} games, which set it and do not count."
        )
    unclear = [pair for pair in contest.pairs if not pair.clear]
    if not unclear:
        return f"All {len(contest.pairs)} differences are clear. {valid}"
    names = listed(f"{pair.first} and {pair.second}" for pair in unclear)
    return (
        f"No significant difference yet between {names}: either may be the better one, so their ranks are "
        f"ranges. {valid}"
    )


def _range(interval: Interval | None, sign: str = "") -> str:
    if interval is None:
        return ""
    decimals = decimals_for(interval, [0])
    return " to ".join(f"{limit:{sign},.{decimals}f}" for limit in interval)
