"""Removes the luck of the new tiles from scores: the expected score stays the same, and the variance falls.

    board --(move, reward)--> afterstate --(new tile)--> board ...

A value function estimates how many points a player will still score from a board on. The luck of a tile is
the value of its board minus the mean value over all possible tiles. The expected luck is 0 for every player
and every value function, because the tile is drawn after the move. So luck is a control variate: the score
minus the luck has the same expected value as the score, and a much smaller variance if the values are good.
This is the estimator of Burch, Schmid, Moravcik, Morrill and Bowling, "AIVAT: A New Variance Reduction
Technique for Agent Evaluation in Imperfect Information Games" (AAAI 2018), applied to chance alone.

The sequential test needs adjusted scores in a known range (`sequential.py`). So the luck of a tile counts
as 0 if that tile, or another one in its place, could bring the game's luck above the current score or outside
a window around 0. This is known before the tile is drawn, so the expected value stays the same.
`bench/strength/luck.py` measures the effect.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.episodes import Episode
from octofold_game.spawns import CHANCE_OF_FOUR, CHANCE_OF_TWO
from octofold_game.system.files import atomic_write
from octofold_game.trajectories import NewTiles, batched, new_tiles_by_move

from octofold_client.contenders.judges import Judge
from octofold_client.errors import UsageError
from octofold_client.evaluation.intervals import average_interval
from octofold_client.evaluation.result_folder import ResultFolder

COEFFICIENTS: NDArray[np.float64] = np.array(
    [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 1.7, 2]
)
"""`[K]`: candidates for the coefficient by which luck, the control variate, is multiplied. None suits all
players: the value function overrates new tiles for weaker players and underrates them for stronger ones. The
results of other games determine the coefficient of a game."""
BAD_LUCK, GOOD_LUCK = 1.5, 2.0
"""A game's luck is limited to -`BAD_LUCK` to `GOOD_LUCK` times the value of the first board."""
MIN_GAMES_TO_ADJUST = 20
"""Minimum number of games for an adjustment. Each half of the games determines the other's coefficient."""
FILE = "luck.npz"
POINTS = "points"
"""The unit of scores. Only a judge with values in this unit can measure luck."""
_POSITIONS_AT_ONCE = 1 << 13
_GAMES_AT_ONCE = 256
_CHANCES = np.array([CHANCE_OF_TWO, CHANCE_OF_FOUR])[:, None]


@dataclass(frozen=True)
class Luck:
    """The luck of some games, as one value function measures it, for each of `COEFFICIENTS`."""

    values: str
    """The name of the value function."""
    sha256: str | None
    start: float
    """The expected value of a game's first board, in points."""
    games: NDArray[np.int64]
    """`[N]`: the indices of the games, in ascending order."""
    corrections: NDArray[np.float64]
    """`[N, K]`: the luck to subtract from each score, for each coefficient."""

    def of(self, games: Sequence[int]) -> "Luck":
        """Return the luck of the games with these indices, all of which must be in `games`."""
        return self.at(np.searchsorted(self.games, np.asarray(games, np.int64)))

    def at(self, rows: slice | NDArray[np.intp]) -> "Luck":
        """Return the luck of the games at these positions in `games`."""
        return replace(self, games=self.games[rows], corrections=self.corrections[rows])

    @property
    def in_points(self) -> NDArray[np.float64]:
        """`[N]`: the luck of each game in points, for the coefficient 1."""
        return self.corrections[:, int(np.flatnonzero(COEFFICIENTS == 1)[0])]

    @property
    def max_increase(self) -> NDArray[np.float64]:
        """`[K]`: the largest amount by which an adjustment can raise a score."""
        return COEFFICIENTS * self.start * BAD_LUCK

    def allowed(self, scores: NDArray[np.float64], cap: float = np.inf) -> NDArray[np.bool_]:
        """Return whether each coefficient is allowed for these games: `[K]`.

        A coefficient times the value of the first board may be at most the average score. If the values are
        far too high for the player, a few rare games are extremely unlucky. From a sample without such games,
        a wrong coefficient would be chosen, and the interval would be too narrow.

        Args:
            scores: `[N]`, up to the cap.
            cap: the largest score that counts. The luck may not exceed the cap, because all adjusted scores
                must be 0 or more.
        """
        limit: float = min(scores.mean(), cap / GOOD_LUCK)
        return COEFFICIENTS * self.start <= limit


def variances(
    scores: NDArray[np.float64], lucks: Sequence[Luck], caps: Sequence[float] = (np.inf, np.inf)
) -> NDArray[np.float64]:
    """Return the variance of the adjusted differences in score, for each pair of coefficients: `[K, K]`.

    Args:
        scores: `[2, N]` scores of the two players in the same games, up to the caps.
        lucks: the luck of each player in these games.
        caps: for each player, the largest score that counts.

    Returns:
        The variances; infinite where a coefficient is not allowed.
    """
    first, second = (luck.corrections for luck in lucks)
    columns = np.cov(np.column_stack([scores[1] - scores[0], first, -second]), rowvar=False, bias=True)
    number = len(COEFFICIENTS)
    with_plain = columns.diagonal() + 2 * columns[0]
    variance = columns[1 : 1 + number, 1 + number :] * 2 + columns[0, 0]
    variance += with_plain[1 : 1 + number, None] + with_plain[1 + number :]
    one, other = (luck.allowed(*each) for luck, *each in zip(lucks, scores, caps, strict=True))
    spread: NDArray[np.float64] = np.where(
        np.logical_and.outer(one, other), np.maximum(0.0, variance), np.inf
    )
    return spread


def worth_in_words(worth: float) -> str:
    """Format an `AdjustedAverage.worth`, such as "1.9 times"; empty below 1.05."""
    return f"{worth:.1f} times" if worth >= 1.05 else ""


@dataclass(frozen=True)
class AdjustedAverage:
    """An average of luck-adjusted scores."""

    values: str
    """The name of the value function."""
    sha256: str | None
    average: float
    interval: Interval | None
    worth: float
    """The variance of plain scores divided by the variance of adjusted scores. Without the adjustment, an
    interval of the same width takes this many times as many games."""

    @property
    def note(self) -> str:
        """A sentence about the adjustment; empty if `worth` is below 1.05."""
        if not (times := worth_in_words(self.worth)):
            return ""
        return (
            f"The luck of the tiles is removed with the values of {self.values}. Without "
            f"this adjustment, an equally narrow interval would take {times} as many games."
        )

    @classmethod
    def of(cls, scores: NDArray[np.int64], luck: Luck) -> "AdjustedAverage | None":
        """Return the luck-adjusted average of `[N]` scores; None if N is below `MIN_GAMES_TO_ADJUST`."""
        if len(scores) < MIN_GAMES_TO_ADJUST:
            return None
        adjusted = adjusted_scores(scores, luck)
        spread = float(adjusted.var())
        return cls(
            luck.values,
            luck.sha256,
            float(adjusted.mean()),
            average_interval(adjusted),
            float(scores.var()) / spread if spread else 1.0,
        )


def adjusted_scores(scores: NDArray[np.int64], luck: Luck) -> NDArray[np.float64]:
    """Return a player's scores `[N]` without luck, with coefficients that `adjusted_pair` chooses."""
    no_luck = replace(luck, start=0.0, corrections=np.zeros_like(luck.corrections))
    both = adjusted_pair(np.stack([np.zeros_like(scores), scores]), (no_luck, luck))
    adjusted: NDArray[np.float64] = both[1]
    return adjusted


def adjusted_pair(scores: NDArray[np.int64], lucks: Sequence[Luck]) -> NDArray[np.float64]:
    """Return the luck-adjusted scores `[2, N]` of two players in the same games.

    The coefficients for the games at even positions minimize the variance of the paired differences of the
    games at odd positions, and vice versa. So no game influences its own adjustment, and the adjusted scores
    have the same expected value as the scores.
    """
    adjusted = scores.astype(np.float64)
    for half in range(2):
        others = slice(1 - half, None, 2)
        known = [luck.at(others) for luck in lucks]
        spread = variances(scores[:, others].astype(np.float64), known)
        chosen = np.unravel_index(spread.argmin(), spread.shape)
        adjusted[:, half::2] -= [
            luck.corrections[half::2, by] for luck, by in zip(lucks, chosen, strict=True)
        ]
    return adjusted


def check_unit(judge: Judge) -> None:
    """Check that a judge values boards in points, as luck requires.

    Raises:
        UsageError: the unit of the values is not points.
    """
    if judge.unit != POINTS:
        raise UsageError(
            f"--luck requires a judge whose values are in points; the unit of {judge.name} is {judge.unit}"
        )


def luck_in(folder: ResultFolder, judge: Judge, progress: Callable[[int], None] = lambda _: None) -> Luck:
    """Return the luck of all finished games of a folder.

    If the judge has a digest, the luck is saved in the folder and read by later calls.

    Args:
        folder: the result folder with the games.
        judge: the value function.
        progress: called with the number of games that are done. An exception from it ends the work; the luck
            of the games that are done is saved.

    Raises:
        UsageError: the values of the judge are not in points, or not finite.
        EvaluationError: the folder is not a result folder.
        OctofoldError: a call of the judge failed, or the replay file is damaged.
    """
    check_unit(judge)
    file, start = folder.path / FILE, _start_value(judge)
    known = _read_luck(file, judge)
    before, games = len(known), list[tuple[int, int]]()
    try:
        for some in batched(folder.finished(), _GAMES_AT_ONCE):
            marked = {(episode.game, _digest(episode)): episode for episode in some}
            missing = {mark: episode for mark, episode in marked.items() if mark not in known}
            games += marked
            if missing:
                known |= zip(missing, luck_of_games(list(missing.values()), judge, start), strict=True)
                progress(len(games))
    finally:
        if len(known) > before and judge.sha256 is not None:
            with suppress(OSError):  # the folder may be read-only
                _write_luck(file, known, judge.sha256)
    games.sort()
    taken = np.array([known[mark] for mark in games]).reshape(-1, len(COEFFICIENTS))
    return Luck(judge.name, judge.sha256, start, np.array([game for game, _ in games], np.int64), taken)


def luck_of_games(episodes: Sequence[Episode], judge: Judge, start: float) -> NDArray[np.float64]:
    """Return the luck of finished games for each of `COEFFICIENTS`: `[N, K]`.

    Args:
        episodes: the games.
        judge: the value function.
        start: the expected value of a game's first board.
    """
    taken = np.zeros((len(episodes), len(COEFFICIENTS)))  # the rows are sorted: the longest game first
    low, high = -COEFFICIENTS * start * BAD_LUCK, COEFFICIENTS * start * GOOD_LUCK
    for step in luck_by_move(episodes, judge):
        now = taken[: len(step.luck)]
        best, worst = (COEFFICIENTS * each[:, None] for each in (step.best, step.worst))
        fits = (now + best <= np.minimum(high, step.scores[:, None])) & (now + worst >= low)
        now += fits * COEFFICIENTS * step.luck[:, None]
    order = sorted(range(len(episodes)), key=lambda row: len(episodes[row]), reverse=True)
    given = np.empty_like(taken)
    given[order] = taken
    return given


class ScoreCurve(NamedTuple):
    """The expected final score of a game from its start to its end, and the causes of its changes."""

    expected: NDArray[np.float64]
    """`[M + 1]`: mean value of first boards; then, after each move, the score plus the value of the board."""
    tiles: NDArray[np.float64]
    """`[M + 1]`: sum of the luck of all tiles so far."""
    moves: NDArray[np.float64]
    """`[M + 1]`: sum of the changes that moves have caused so far. It mostly falls if the values assume a
    stronger player."""


def score_curve(episode: Episode, judge: Judge) -> ScoreCurve:
    """Return the curve of a finished game's expected score, according to a judge."""
    steps = list(luck_by_move([episode], judge))
    luck = np.array([step.luck[0] for step in steps])
    start = _start_value(judge)
    after = [float(step.scores[0] + step.expected[0] + step.luck[0]) for step in steps]
    expected, tiles = np.array([start, *after]), np.append(0.0, luck.cumsum())
    return ScoreCurve(expected, tiles, expected - start - tiles)


class LuckByMove(NamedTuple):
    """The luck of the new tile after the n-th move of each of several games, for one n."""

    scores: NDArray[np.int64]
    """`[N]`: the scores after the move."""
    expected: NDArray[np.float64]
    """`[N]`: the mean value over all possible tiles."""
    luck: NDArray[np.float64]
    """`[N]`: the luck of the new tile."""
    best: NDArray[np.float64]
    """`[N]`: the luck of the best possible tile."""
    worst: NDArray[np.float64]
    """`[N]`: the luck of the worst possible tile."""


def luck_by_move(episodes: Sequence[Episode], judge: Judge) -> Iterator[LuckByMove]:
    """Yield for each move number the luck of the new tiles after this move, in all games that reach it.

    The games are sorted: the longest comes first.
    """
    waiting, positions = list[NewTiles](), 0
    for tiles in new_tiles_by_move(episodes):
        waiting.append(tiles)
        positions += len(tiles.cells)
        if positions >= _POSITIONS_AT_ONCE:
            yield from _luck_of_tiles(waiting, judge)
            waiting, positions = [], 0
    if waiting:
        yield from _luck_of_tiles(waiting, judge)


def _luck_of_tiles(parts: Sequence[NewTiles], judge: Judge) -> Iterator[LuckByMove]:
    tiles = NewTiles(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    values = judge.tile_values(tiles.afterstates).astype(np.float64)
    expected = _expected(values)
    flat = values.reshape(len(values), -1)
    every = LuckByMove(
        tiles.scores,
        expected,
        values[np.arange(len(values)), tiles.tiles, tiles.cells] - expected,
        np.fmax.reduce(flat, axis=1) - expected,
        np.fmin.reduce(flat, axis=1) - expected,
    )
    first = 0
    for part in parts:
        rows = slice(first, first + len(part.cells))
        first = rows.stop
        yield LuckByMove(
            every.scores[rows], every.expected[rows], every.luck[rows], every.best[rows], every.worst[rows]
        )


def _expected(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each of N positions the mean of its values `[N, 2, 16]` over all possible new tiles: `[N]`.

    Raises:
        UsageError: a mean is not finite.
    """
    means: NDArray[np.float64] = np.nanmean((values * _CHANCES).sum(axis=1), axis=1)
    if not np.isfinite(means).all():
        raise UsageError("--luck requires a judge whose values are finite on every board")
    return means


def _start_value(judge: Judge) -> float:
    """Return the expected value of the first board of a game."""
    first = np.zeros((2, 16, 16), np.uint8)
    for tile in range(2):
        np.fill_diagonal(first[tile], tile + 1)
    means = _expected(judge.tile_values(first.reshape(-1, 16)).astype(np.float64)).reshape(2, 16)
    return float((means.mean(axis=1) * _CHANCES[:, 0]).sum())


def _digest(episode: Episode) -> int:
    """Return a digest that distinguishes a game from others with the same index."""
    content = hashlib.blake2b(episode.start.tobytes(), digest_size=7)
    content.update(episode.moves)
    return int.from_bytes(content.digest())


def _read_luck(file: Path, judge: Judge) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return the saved luck `[K]` by game index and digest; empty without a file of this value function."""
    try:
        with np.load(file, allow_pickle=False) as kept:
            marks, taken = kept["marks"], kept["taken"]
            same = str(kept["sha256"]) == judge.sha256 and np.array_equal(kept["coefficients"], COEFFICIENTS)
    except (OSError, KeyError, ValueError, BadZipFile):
        return {}
    if not same or marks.shape != (len(taken), 2) or taken.shape != (len(marks), len(COEFFICIENTS)):
        return {}
    return {(game, mark): row for (game, mark), row in zip(marks.tolist(), taken, strict=True)}


def _write_luck(file: Path, known: Mapping[tuple[int, int], NDArray[np.float64]], sha256: str) -> None:
    with atomic_write(file) as partial, partial.open("wb") as opened:
        np.savez(
            opened,
            sha256=np.array(sha256),
            coefficients=COEFFICIENTS,
            marks=np.array(list(known), np.int64),
            taken=np.array(list(known.values())),
        )
