"""Summarizes finished games: averages, medians and shares with 95% confidence intervals.

Averages have Student's t intervals, shares have Wilson's, and the interval of the median lies between two
order statistics. `report.py` formats the figures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.episodes import Episode

from octofold_client.evaluation.intervals import (
    average_interval,
    median_interval,
    share_interval,
    standard_error,
)

TILES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True, slots=True)
class GameSummary:
    """The figures of one finished game."""

    game: int
    """Index among the games of the seed."""
    score: int
    largest_tile: int
    moves: int
    outgrown: bool
    """Whether the game ended because it exceeded the player's largest tile."""

    @classmethod
    def of(cls, episode: Episode) -> "GameSummary":
        """Summarize a finished game."""
        return cls(episode.game, episode.score, episode.largest_tile, len(episode), episode.outgrown)


def in_order(games: Iterable[GameSummary]) -> list[GameSummary]:
    """Return the games in the order of their indices."""
    return sorted(games, key=lambda each: each.game)


def column(games: Sequence[GameSummary], field: str) -> NDArray[np.int64]:
    """Return the values `[N]` of one field of all games."""
    return np.array([getattr(each, field) for each in games], np.int64)


@dataclass(frozen=True)
class TileShare:
    """The number and share of games that reached a tile, or that ended with it as their largest tile."""

    tile: int
    games: int
    share: float
    interval: Interval

    @classmethod
    def of(cls, tile: int, games: int, total: int) -> "TileShare":
        """Return the share of `games` among `total` games."""
        return cls(tile, games, games / total, share_interval(games, total))


@dataclass(frozen=True)
class Summary:
    """The figures of an evaluation with 95% intervals; an interval is None for too few games."""

    games: int
    average: float
    average_standard_error: float | None
    average_interval: Interval | None
    median: float
    median_interval: Interval | None
    best: int
    moves_per_game: float
    moves_per_game_interval: Interval | None
    reached: tuple[TileShare, ...]
    """For each of `TILES`, the games that reached it."""
    largest_tiles: tuple[TileShare, ...]
    """For each largest tile, in ascending order, the games that ended with it."""
    outgrown_games: tuple[int, ...]

    @classmethod
    def of(cls, games: Iterable[GameSummary]) -> "Summary":
        """Summarize at least one finished game, in any order."""
        # Sorted, equal games give equal figures to the last bit.
        table = in_order(games)
        scores, lengths = column(table, "score"), column(table, "moves")
        tiles, ends = np.unique(column(table, "largest_tile"), return_counts=True)
        counts = dict(zip(tiles.tolist(), ends.tolist(), strict=True))
        return cls(
            games=len(table),
            average=_average(scores),
            average_standard_error=standard_error(scores),
            average_interval=average_interval(scores),
            median=float(np.median(scores)),
            median_interval=median_interval(scores),
            best=int(scores.max()),
            moves_per_game=_average(lengths),
            moves_per_game_interval=average_interval(lengths),
            reached=tuple(
                TileShare.of(tile, sum(n for made, n in counts.items() if made >= tile), len(table))
                for tile in TILES
            ),
            largest_tiles=tuple(TileShare.of(tile, n, len(table)) for tile, n in sorted(counts.items())),
            outgrown_games=tuple(each.game for each in table if each.outgrown),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values; intervals are pairs or null."""
        figures = asdict(self)
        del figures["games"]  # the result file has this number in another field
        games = figures.pop("outgrown_games")
        return figures | {"outgrown": len(games), "outgrown_games": games}


def _average(values: NDArray[np.integer[Any]]) -> float:
    return int(values.sum(dtype=np.int64)) / len(values)  # exact for integers, in any order
