"""Defines the files of evaluations and comparisons, as far as packages other than the client read them.

The client writes these files. The export reads `result.json` and `comparison.json`, and the server shows the
games. docs/results.md and docs/compare.md describe every field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octofold_game.contract.model import Count, Interval, PlayedPrecision, Reached
from octofold_game.contract.structures import StructureError, structured

RESULTS = Path("results")
"""Default folder of all results."""
CONDITIONS_FILE, GAMES_FILE, LIVE_FILE, RESULT_FILE = (
    "conditions.json", "games.replay", "live.json", "result.json",
)  # fmt: skip
"""Names of the files of an evaluation."""
UNFINISHED_FILE = "unfinished.replay"
"""Name of the file with the unfinished games of an evaluation. It is saved every few seconds and when the
evaluation stops."""
RESULT_SCHEMA = 4
"""Version of `result.json`. It increases when a field is removed or changes its meaning."""
RESULT_SCHEMAS = (1, 2, 3, RESULT_SCHEMA)
"""All versions of `result.json` that the client reads."""
COMPARISON_SCHEMA = 3
"""Version of `comparison.json`. It increases when a field is removed or changes its meaning."""
FIRST_GAMES = 10
"""Number of games at the start of a comparison that only determine the cap of the scores. The test by betting
begins after them, because bets need a known cap."""
RANDOM_AVERAGE = 1_095
"""Average score of random moves (95% interval 1,062 to 1,129; 1,000 games; papers/README.md)."""
UNDECIDED, NO = 3, 4
"""Exit codes of a comparison: `UNDECIDED` if the games do not decide, `NO` if the answer is no."""


def random_note(average: float, interval: Interval | None) -> str:
    """Return a warning if an average score is not clearly above `RANDOM_AVERAGE`, otherwise an empty text."""
    if (average if interval is None else interval[0]) > RANDOM_AVERAGE:
        return ""
    return (
        "No evidence that this player is better than random moves, "
        f"which score {RANDOM_AVERAGE:,} on average."
    )


class WithoutLuck(msgspec.Struct, frozen=True):
    """The luck-adjusted average of an evaluation."""

    average: float
    interval: Interval | None
    worth: float
    """Number of games without luck adjustment that narrow the interval as much as one adjusted game."""


class GamesSlice(msgspec.Struct, frozen=True):
    """One of the parts into which the games of an evaluation are cut; their sizes differ by at most one."""

    number: int
    """Number of this slice, from 1."""
    of: int
    """Number of slices."""
    games: Count | None = None
    """Number of games in all slices together; None if it is unknown."""


class PlannedGames(msgspec.Struct, frozen=True):
    """The planned games of an evaluation, as in `conditions.json`."""

    games: Count | None = None
    """Number of planned games in all slices together; None in folders of older programs."""
    slice: GamesSlice | None = None
    """The slice to play; None for all games."""

    @property
    def range(self) -> range | None:
        """The indices of the planned games; None if they are unknown."""
        if self.slice is not None and self.slice.games is not None:
            return slice_range(self.slice.number, self.slice.of, self.slice.games)
        return None if self.games is None else range(self.games)


def slice_range(number: int, of: int, games: int) -> range:
    """Return the game indices of slice `number` (from 1) if `games` games are cut into `of` slices."""
    first, end = (games * each // of for each in (number - 1, number))
    return range(first, end)


class Completeness(msgspec.Struct, frozen=True):
    """The numbers of finished and missing games of an evaluation.

    Long games end last. If an evaluation stops early, most finished games are short ones. So their averages,
    shares and ranks would be biased.
    """

    planned: int
    finished: int
    running: int
    """Number of saved games that have begun and not ended."""
    lost: int
    """Number of games that had begun and were not saved; they must start over."""

    @classmethod
    def of(cls, planned: range | None, finished: int, running: int, last: int) -> Completeness:
        """Return the counts of an evaluation's games.

        Args:
            planned: the indices of the planned games; None if they are unknown. All games up to `last` then
                count as planned.
            finished: number of finished planned games.
            running: number of saved planned games that have not ended.
            last: the largest index of a finished or saved game; -1 if there is none.
        """
        games = range(last + 1) if planned is None else planned
        begun = max(0, min(last + 1, games.stop) - games.start)
        return cls(len(games), finished, running, max(0, begun - finished - running))

    @property
    def missing(self) -> int:
        """Number of planned games that have not ended."""
        return self.planned - self.finished

    @property
    def reason(self) -> str:
        """The reason why the games give no average, share, interval or rank; empty if no game is missing."""
        if not self.missing:
            return ""
        return (
            f"Only {self.finished:,} of {self.planned:,} games are finished. Long games end last, so "
            "averages, shares and ranks of the finished games would be biased."
        )


class Statistics(msgspec.Struct, frozen=True):
    """The figures of an evaluation with their intervals."""

    average: float
    average_interval: Interval | None
    median: float
    median_interval: tuple[int | float, int | float] | None
    best: int
    reached: tuple[Reached, ...]
    outgrown: Count


class EvaluationFile(msgspec.Struct, frozen=True):
    """The content of `result.json` for games of a served model."""

    model: str
    version: str
    precision: PlayedPrecision
    sha256: str
    games: Count
    missing_games: Count
    seed: int
    slice: GamesSlice | None
    statistics: Statistics | None
    """Statistics of the games; None if games are missing."""


class ScoreCap(msgspec.Struct, frozen=True):
    """The cap of the scores in the test by betting, and the adjustment for luck."""

    cap: Count | None
    """Cap of the scores; None if scores count in full."""
    above_cap: tuple[float, float] | None
    """Share of each player's games with a score above the cap."""
    values: str | None = None
    """The value function for luck adjustment; None without adjustment."""
    sha256: str | None = None
    """Digest of the value function, if it has one."""
    worth: float | None = None
    """Number of games without luck adjustment that narrow the interval as much as one adjusted game."""


class ComparedPair(msgspec.Struct, frozen=True):
    """The comparison of two players."""

    sentence: str
    """The result as a sentence."""
    games: tuple[Count, Count]
    ratio: float | None = None
    """The second player's average score divided by the first player's; None without a test by betting."""
    ratio_interval: Interval | None = None
    limit_error_rate: float | None = None
    bets: ScoreCap | None = None


class Question(msgspec.Struct, frozen=True):
    """The question that a comparison answers."""

    kind: str
    margin: float


class ComparisonFile(msgspec.Struct, frozen=True):
    """The content of `comparison.json`."""

    question: Question | None
    answer: bool | None
    pairs: tuple[ComparedPair, ...]


Result = TypeVar("Result", EvaluationFile, ComparisonFile)


def read_result(content: bytes, kind: type[Result], schemas: tuple[int, ...]) -> Result:
    """Read a result file or a comparison file.

    Args:
        content: content of the file.
        kind: the structure of the file.
        schemas: the versions that the caller reads.

    Raises:
        StructureError: the content is not JSON, does not have this structure, or has another version.
    """
    try:
        decoded: Any = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        raise StructureError("not JSON") from None
    if isinstance(decoded, dict) and decoded.get("schema") not in schemas:
        raise StructureError(f"schema must be {' or '.join(map(str, schemas))}, got {decoded.get('schema')}")
    return structured(decoded, kind)
