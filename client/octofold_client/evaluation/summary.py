"""Summarizes finished games: averages and shares with 95% intervals.

The average has two intervals, a normal one (mean ± 1.96 standard errors) and a bootstrap one. The interval of
the median lies between order statistics, and those of shares are Wilson's. `report.py` formats the figures.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from octofold_game.episodes import Episode

from octofold_client.evaluation.intervals import (
    Interval,
    average_interval,
    bootstrap_interval,
    median_interval,
    share_interval,
    standard_error,
)

TILES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True, slots=True)
class GameSummary:
    """One finished game."""

    game: int
    """Index among the games of the seed."""
    score: int
    largest_tile: int
    moves: int
    outgrown: bool
    """Whether the game ended because it exceeded the model's largest tile."""

    @classmethod
    def of(cls, episode: Episode) -> "GameSummary":
        """The summary of a finished game."""
        return cls(episode.game, episode.score, episode.largest_tile, len(episode), episode.outgrown)


@dataclass(frozen=True)
class TileShare:
    """The games whose largest tile is `tile`, or that reached it."""

    tile: int
    games: int
    share: float
    interval: Interval

    @classmethod
    def of(cls, tile: int, games: int, of: int) -> "TileShare":
        """The share of `games` in all games `of` the evaluation."""
        return cls(tile, games, games / of, share_interval(games, of))

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return {"tile": self.tile, "games": self.games, "share": self.share, "interval": list(self.interval)}


@dataclass(frozen=True)
class Summary:
    """The figures of finished games, with 95% intervals; an interval is None for too few games."""

    games: int
    average: float
    average_standard_error: float | None
    average_interval: Interval | None
    average_bootstrap_interval: Interval | None
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
    def of(cls, games: Sequence[GameSummary]) -> "Summary":
        """Summarize at least one finished game, in any order."""
        # Sorted, so that equal games give equal figures to the last bit.
        games = sorted(games, key=lambda game: game.game)
        scores = [game.score for game in games]
        lengths = [game.moves for game in games]
        counts = Counter(game.largest_tile for game in games)
        return cls(
            games=len(games),
            average=fmean(scores),
            average_standard_error=standard_error(scores),
            average_interval=average_interval(scores),
            average_bootstrap_interval=bootstrap_interval(scores),
            median=float(median(scores)),
            median_interval=median_interval(scores),
            best=max(scores),
            moves_per_game=fmean(lengths),
            moves_per_game_interval=average_interval(lengths),
            reached=tuple(
                TileShare.of(tile, sum(n for made, n in counts.items() if made >= tile), len(games))
                for tile in TILES
            ),
            largest_tiles=tuple(TileShare.of(tile, n, len(games)) for tile, n in sorted(counts.items())),
            outgrown_games=tuple(game.game for game in games if game.outgrown),
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values; intervals are `[low, high]` or null."""
        return {
            "average": self.average,
            "average_standard_error": self.average_standard_error,
            "average_interval": _pair(self.average_interval),
            "average_bootstrap_interval": _pair(self.average_bootstrap_interval),
            "median": self.median,
            "median_interval": _pair(self.median_interval),
            "best": self.best,
            "moves_per_game": self.moves_per_game,
            "moves_per_game_interval": _pair(self.moves_per_game_interval),
            "reached": [row.to_json() for row in self.reached],
            "largest_tiles": [row.to_json() for row in self.largest_tiles],
            "outgrown": len(self.outgrown_games),
            "outgrown_games": list(self.outgrown_games),
        }


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)
