"""Chooses how many views of a board a network is asked about, by games.

Eight views help a network that has learned from turned and mirrored boards. A network that knows one view has
nothing to say about the others, and playing by all of them halves its score. Only games tell the two apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from octofold_game.contract.model import Alternative, Alternatives, Interval, Rule

from octofold_export.checks.games import Match, Mover, Scores, play_match
from octofold_export.checks.recording import Report

MOST_SECONDS = 120.0
_ROUNDS = (8, 24, *[32] * 7)
"""Games of each. The first is small, because games of a strong network are long, and time is not."""
_LARGEST_LOSS = 0.02
_Z = 1.96  # of a 95% interval


@dataclass(frozen=True, order=True)
class Way:
    """One way to ask a network."""

    symmetries: int
    rule: Rule

    def __str__(self) -> str:
        if self.symmetries == 1:
            return "1 view"
        return f"{self.symmetries} views by {'vote' if self.rule == 'vote' else 'mean'}"


def choose_way(
    players: Iterable[tuple[Way, Callable[[], Mover]]],
    largest_exponent: int,
    report: Report,
    most_seconds: float = MOST_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    at_once: int = 1,
) -> tuple[Way, Alternatives | None]:
    """Play the same games in every way, and choose the fewest views that lose nothing.

    These are the fewest whose paired 95% interval against the best way includes zero, and which lose less
    than 2% of its average. Ways that are clearly worse stop playing early, and all stop after `most_seconds`.
    If not even the first games are over then, the intervals of what they have scored after equally many moves
    decide. `at_once` ways play together.
    Returns the choice, and what the other ways scored.

    Raises:
        ExportError: a player answers a board with numbers that are not finite.
    """
    end = clock() + most_seconds
    scores: dict[Way, Scores] = {}
    makers = dict(players)
    for number, size in enumerate(_ROUNDS):
        first = sum(_ROUNDS[:number])
        games = range(first, first + size)
        match = play_match(makers, games, largest_exponent, lambda: clock() > end, at_once)
        if match.moves is not None:
            if number:
                break  # with the rounds that are over
            return _chosen_early(match, match.moves, makers, report)
        scores |= {way: np.concatenate([scores.get(way, np.empty(0)), match.scores[way]]) for way in makers}
        best = _best(scores, len(scores[next(iter(makers))]))
        for way in list(makers) if number else ():  # the first games are too few to leave one out
            interval = _interval(scores[way] - scores[best])
            if interval is not None and interval[1] < 0:
                del makers[way]
        if len(makers) == 1 or clock() > end:
            break
    return _chosen(scores, makers, report)


def _chosen_early(
    match: Match[Way], moves: int, ways: Iterable[Way], report: Report
) -> tuple[Way, Alternatives | None]:
    """The choice if the time is over before the first games are."""
    if missing := ", ".join(str(way) for way in ways if way not in match.scores):
        report(f"  too slow to play {moves} moves in time: {missing}")
    if not match.scores:
        report("  so the network is asked about 1 view; --symmetries sets another number")
        return Way(1, "vote"), None
    report(f"  the time is over before the games are; the scores after {moves} moves decide")
    return _chosen(match.scores, match.scores, report, moves)


def _best(scores: Mapping[Way, Scores], games: int) -> Way:
    """The way with the highest average, of those that have played all games; of equals, with fewest views."""
    full = {way: float(each.mean()) for way, each in scores.items() if len(each) == games}
    return min(full, key=lambda way: (-full[way], way))


def _chosen(
    scores: Mapping[Way, Scores], left: Iterable[Way], report: Report, moves: int | None = None
) -> tuple[Way, Alternatives]:
    games = max(map(len, scores.values()))
    best = _best(scores, games)
    average = float(scores[best].mean())

    def good_enough(way: Way) -> bool:
        interval = _interval(scores[way] - scores[best])
        covers = interval is None or interval[0] <= 0 <= interval[1]
        # Of games that were stopped, the averages differ by who merges when.
        return covers and (moves is not None or float(scores[way].mean()) > (1 - _LARGEST_LOSS) * average)

    chosen = min(
        (way for way in left if good_enough(way)), key=lambda way: (way.symmetries, -scores[way].mean())
    )
    for way, each in sorted(scores.items()):
        marked = " (chosen)" if way == chosen else ""
        report(f"  {way}: {_named(each)} in {len(each)} games{marked}")
    return chosen, Alternatives(
        rows=tuple(_row(way, each, scores[chosen]) for way, each in sorted(scores.items()) if way != chosen),
        command="octofold-export --symmetries auto",
        moves=moves,
    )


def _row(way: Way, scores: Scores, chosen: Scores) -> Alternative:
    difference = scores - chosen[: len(scores)]
    return Alternative(
        symmetries=way.symmetries,
        decision_rule=way.rule,
        precision="fp32",
        games=len(scores),
        average=float(scores.mean()),
        average_interval=_interval(scores),
        difference=float(difference.mean()),
        difference_interval=_interval(difference),
    )


def _named(scores: Scores) -> str:
    interval = _interval(scores)
    around = "" if interval is None else f" (95% interval {interval[0]:,.0f} to {interval[1]:,.0f})"
    return f"average score {scores.mean():,.0f}{around}"


def _interval(values: Scores) -> Interval | None:
    """Normal interval of the average; None if it is not known."""
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return mean - _Z * error, mean + _Z * error
