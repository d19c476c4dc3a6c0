"""The files of evaluations and comparisons, as far as other programs depend on them.

The client writes them. The export reads `result.json` and `comparison.json`, and the server shows the games.
docs/results.md and docs/compare.md describe every field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octofold_game.contract.model import Count, Interval, PlayedPrecision, Reached
from octofold_game.contract.structures import StructureError, structured

RESULTS = Path("results")
"""The folder of all results if none is named."""
CONDITIONS_FILE, GAMES_FILE, LIVE_FILE, RESULT_FILE = (
    "conditions.json", "games.replay", "live.json", "result.json",
)  # fmt: skip
"""Files of an evaluation that other programs read. The last one is written when it has ended."""
RESULT_SCHEMA = 3
"""Version of `result.json`; it grows when a field is removed or changes its meaning."""
RESULT_SCHEMAS = (1, 2, RESULT_SCHEMA)
"""The versions in which conditions and run have the same fields."""
COMPARISON_SCHEMA = 2
"""Version of `comparison.json`, as `RESULT_SCHEMA`."""
FIRST_GAMES = 100
"""Games of a comparison that set the cap of the scores. They cannot bet: bets begin with a known cap."""
NOT_SHOWN = 3
"""Exit code of a comparison if the answer to its question is no, or if the games did not decide it."""


class Statistics(msgspec.Struct, frozen=True):
    """The figures of an evaluation."""

    average: float
    average_interval: Interval | None
    median: float
    median_interval: tuple[int | float, int | float] | None
    best: int
    reached: tuple[Reached, ...]
    outgrown: Count


class GamesSlice(msgspec.Struct, frozen=True):
    """Which of several equal parts of the games was played."""

    number: int
    of: int


class EvaluationFile(msgspec.Struct, frozen=True):
    """`result.json` of games that a served model played."""

    model: str
    version: str
    precision: PlayedPrecision
    sha256: str
    games: Count
    missing_games: Count
    seed: int
    slice: GamesSlice | None
    statistics: Statistics


class ScoreCap(msgspec.Struct, frozen=True):
    """What the sequential test of a pair counted."""

    cap: Count | None
    """Scores count up to this; None: in full."""
    above_cap: tuple[float, float] | None
    """The share of games above it, of both players."""


class ComparedPair(msgspec.Struct, frozen=True):
    """Two players of a comparison."""

    sentence: str
    """What was found, in words."""
    games: tuple[Count, Count]
    ratio: float | None = None
    """The average of the second over that of the first; None without bets."""
    ratio_interval: Interval | None = None
    limit_error_rate: float | None = None
    bets: ScoreCap | None = None


class AskedQuestion(msgspec.Struct, frozen=True):
    """The question that a comparison answers."""

    kind: str
    margin: float


class ComparisonFile(msgspec.Struct, frozen=True):
    """`comparison.json`."""

    question: AskedQuestion | None
    answer: bool | None
    pairs: tuple[ComparedPair, ...]


Result = TypeVar("Result", EvaluationFile, ComparisonFile)


def read_result(content: bytes, kind: type[Result], schemas: tuple[int, ...]) -> Result:
    """Read one of the two files.

    Args:
        content: of the file.
        kind: which of them it is.
        schemas: the versions that the caller understands.

    Raises:
        StructureError: the content is no such result, or is of another version.
    """
    try:
        found: Any = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        raise StructureError("not JSON") from None
    if isinstance(found, dict) and found.get("schema") not in schemas:
        raise StructureError(f"schema {found.get('schema')}, this version reads {schemas[-1]}")
    return structured(found, kind)
