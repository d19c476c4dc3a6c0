"""The figures of an analysis as its file keeps them, for pictures and reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from octofold_game.rules import LARGEST_EXPONENT
from octofold_game.system.files import read_regular

from octofold_client.errors import EvaluationError
from octofold_client.studies.endings import QUARTERS, SCHEMA, CostlyMove, Group

FILE = "analysis.json"
_MAX_BYTES = 16 << 20

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


@dataclass(frozen=True)
class JudgeName:
    """The judge of an analysis."""

    name: str
    unit: str
    """Unit of its values."""
    sha256: str | None


@dataclass(frozen=True)
class EndedAt:
    """The games that ended with one largest tile."""

    largest_tile: _Count
    games: _Count
    quarters: list[_Count]
    """The same games by the sum of their other tiles, as `endings.QUARTERS` names the groups."""


@dataclass(frozen=True)
class KeptAnalysis:
    """The figures of an analysis; docs/results.md describes its file."""

    schema: int
    last_moves: int
    games: int
    judged: int
    """Number of judged positions."""
    judge: JudgeName | None
    all: Group
    by_stage: list[Group]
    by_distance: list[Group]
    endings: list[EndedAt]
    costliest: list[CostlyMove]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "KeptAnalysis":
        """The figures from the content of the file.

        Raises:
            ValueError: a field is missing or has another type.
        """
        kept = msgspec.convert(dict(found), cls)
        if kept.schema != SCHEMA:
            raise ValueError(f"schema {kept.schema}, but this program reads schema {SCHEMA}")
        if any(len(row.quarters) != len(QUARTERS) for row in kept.endings):
            raise ValueError(f"a row of endings has not {len(QUARTERS)} quarters")
        if any(
            len(move.board) != 16 or not 0 <= min(move.board) <= max(move.board) <= LARGEST_EXPONENT
            for move in kept.costliest
        ):
            raise ValueError("a costly move has no board of 16 exponents")
        if any(not 0 <= number <= 3 for move in kept.costliest for number in (move.made, move.better)):
            raise ValueError("a costly move is not one of the four moves")
        return kept


def read_analysis(folder: Path) -> KeptAnalysis | None:
    """The analysis in a result folder; None without one.

    Raises:
        EvaluationError: the file is damaged, or its version is unknown.
        OSError: the file cannot be read, or is too large.
    """
    file = folder / FILE
    try:
        return KeptAnalysis.of(msgspec.json.decode(read_regular(file, _MAX_BYTES)))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise EvaluationError(f"{file} is damaged: {error}") from None
