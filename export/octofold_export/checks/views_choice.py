"""Chooses how many views of a board a network sees, by playing games.

Eight views help a network that has learned from turned and mirrored boards. A network that has learned from
one view answers at random on the other views, so a vote over all views halves its score. Only games
distinguish the two kinds of network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Alternative, Alternatives, Interval, Rule
from octofold_game.episodes import Episodes, IllegalMoveError
from octofold_game.system.processors import usable_cores

from octofold_export.checks.folded_graph import Mover
from octofold_export.errors import ExportError
from octofold_export.printing import Report

Scores = NDArray[np.float64]
"""The scores `[G]` of a player's games; all players play the same games in the same order."""

MOST_SECONDS = 120.0
_ROUNDS = (8, 24, *[32] * 7)
"""Number of games in each round. The first round is short, because a strong network plays long games."""
_FEWEST_MOVES = 128
"""Minimum number of moves after which the scores of unfinished games are compared."""
_SEED = 4
_LARGEST_LOSS = 0.02
_Z = 1.96
"""Half the width of a 95% interval, in standard errors."""


@dataclass(frozen=True, order=True)
class ViewSetting:
    """The number of views, and the decision rule."""

    symmetries: int
    rule: Rule

    def __str__(self) -> str:
        return "1 view" if self.symmetries == 1 else f"{self.symmetries} views by {self.rule}"


def choose_views(
    players: Mapping[ViewSetting, Mover],
    largest_exponent: int,
    report: Report,
    most_seconds: float = MOST_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[ViewSetting, Alternatives | None]:
    """Choose the fewest views that lose nothing, by playing games with all settings.

    A setting loses nothing if the 95% interval of its paired difference to the best setting includes zero,
    and if its average is less than 2% below the best average. Settings that are clearly worse stop early, and
    all stop after `most_seconds`. If the first round has not ended by then, the intervals of the scores after
    the same number of moves decide.

    Returns:
        The chosen setting; and the scores of the other settings, None if too few moves were made to compare
        scores.

    Raises:
        ExportError: a player answers a board with numbers that are not finite.
    """
    end = clock() + most_seconds
    scores: dict[ViewSetting, Scores] = {}
    left = dict(players)
    for number, size in enumerate(_ROUNDS):
        first = sum(_ROUNDS[:number])
        reached, moves = play_match(left, range(first, first + size), largest_exponent, lambda: clock() > end)
        if moves is not None:
            if number:
                break  # the scores of the finished rounds decide
            if moves < _FEWEST_MOVES:
                report(
                    f"  each game reached only move {moves} in {most_seconds:.0f} s, too early to compare "
                    "scores; the graph sees 1 view of a board"
                )
                return min(players), None
            report(f"  time ran out before the games ended; the scores after {moves} moves decide")
            return _choose(reached, reached, report, moves)
        scores |= {
            setting: np.concatenate([scores.get(setting, np.empty(0)), reached[setting]]) for setting in left
        }
        best = _best(scores, len(scores[next(iter(left))]))
        for setting in list(left) if number else ():  # the first round is too short to exclude a setting
            interval = _interval(scores[setting] - scores[best])
            if interval is not None and interval[1] < 0:
                del left[setting]
        if len(left) == 1 or clock() > end:
            break
    return _choose(scores, left, report)


def play_match(
    players: Mapping[ViewSetting, Mover], games: range, largest_exponent: int, is_late: Callable[[], bool]
) -> tuple[dict[ViewSetting, Scores], int | None]:
    """Play the same games with several players, move by move, until all end or `is_late` returns true.

    Returns:
        The scores; and the number of moves at which `is_late` stopped the games, None if all games ended.

    Raises:
        ExportError: a player answers a board with numbers that are not finite.
    """
    playing = {key: _Games(player, games, largest_exponent) for key, player in players.items()}
    moves = 0
    with ThreadPoolExecutor(usable_cores()) as pool:
        while any(each.are_running for each in playing.values()):
            if is_late():
                return {setting: each.scores for setting, each in playing.items()}, moves
            list(pool.map(_Games.move, playing.values()))
            moves += 1
    return {setting: each.scores for setting, each in playing.items()}, None


class _Games:
    """The games of one player."""

    def __init__(self, player: Mover, games: range, largest_exponent: int) -> None:
        self._player = player
        self._episodes = Episodes(_SEED, games, largest_exponent)
        self._first = games.start
        self._ended = np.zeros(len(games))

    @property
    def are_running(self) -> bool:
        return len(self._episodes.running) > 0

    @property
    def scores(self) -> Scores:
        """The scores of the games so far."""
        scores = self._ended.copy()
        scores[self._episodes.running - self._first] = self._episodes.scores
        return scores

    def move(self) -> None:
        """Make a move in every running game."""
        if not self.are_running:
            return
        try:
            ended = self._episodes.step(self._player.next_moves(self._episodes.boards))
        except IllegalMoveError as error:  # a graph chooses illegal moves only if its numbers are NaN
            raise ExportError(
                f"the network answers a board with numbers that are not finite ({error})"
            ) from error
        for episode in ended:
            self._ended[episode.game - self._first] = episode.score


def _best(scores: Mapping[ViewSetting, Scores], games: int) -> ViewSetting:
    """Return the setting with the best average over `games` games; fewer views win a tie."""
    full = {setting: float(each.mean()) for setting, each in scores.items() if len(each) == games}
    return min(full, key=lambda setting: (-full[setting], setting))


def _choose(
    scores: Mapping[ViewSetting, Scores],
    left: Iterable[ViewSetting],
    report: Report,
    moves: int | None = None,
) -> tuple[ViewSetting, Alternatives]:
    games = max(map(len, scores.values()))
    best = _best(scores, games)
    average = float(scores[best].mean())

    def good_enough(setting: ViewSetting) -> bool:
        interval = _interval(scores[setting] - scores[best])
        covers = interval is None or interval[0] <= 0 <= interval[1]
        # Averages of unfinished games vary with the moment of the last large merge, so they are not compared.
        return covers and (moves is not None or float(scores[setting].mean()) > (1 - _LARGEST_LOSS) * average)

    chosen = min(
        (setting for setting in left if good_enough(setting)),
        key=lambda setting: (setting.symmetries, -scores[setting].mean()),
    )
    others = []
    for setting, each in sorted(scores.items()):
        if setting != chosen:
            others.append(_alternative(setting, each, scores[chosen]))
        marked = " (chosen)" if setting == chosen else ""
        report(f"  {setting}: {_average_text(each)} in {len(each)} games{marked}")
    command = "octofold-export --symmetries auto"
    return chosen, Alternatives(rows=tuple(others), command=command, moves=moves)


def _alternative(setting: ViewSetting, scores: Scores, chosen: Scores) -> Alternative:
    difference = scores - chosen[: len(scores)]
    return Alternative(
        symmetries=setting.symmetries,
        decision_rule=setting.rule,
        precision="fp32",
        games=len(scores),
        average=float(scores.mean()),
        average_interval=_interval(scores),
        difference=float(difference.mean()),
        difference_interval=_interval(difference),
    )


def _average_text(scores: Scores) -> str:
    interval = _interval(scores)
    around = "" if interval is None else f" (95% interval {interval[0]:,.0f} to {interval[1]:,.0f})"
    return f"average score {scores.mean():,.0f}{around}"


def _interval(values: Scores) -> Interval | None:
    """Return the normal 95% interval of the average; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return mean - _Z * error, mean + _Z * error
