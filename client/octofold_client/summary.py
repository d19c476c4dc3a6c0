"""What a set of finished games says about their player: averages and shares with their 95% intervals.

It knows neither servers nor terminals; `report.py` shows these figures to people. The average's interval is
normal (mean ± 1.96 standard errors), the median's runs between order statistics, the shares' are Wilson's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from octofold_client.intervals import Interval, average_interval, median_interval, share_interval

TILES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


@dataclass(frozen=True)
class GameSummary:
    """One finished game."""

    game: int
    """Its index among the games of its seed."""
    score: int
    largest_tile: int
    moves: int
    outgrown: bool
    """The game ended because it made a tile above the model's largest."""


@dataclass(frozen=True)
class Reached:
    """How many games made `tile` or a larger one."""

    tile: int
    games: int
    share: float
    interval: Interval


@dataclass(frozen=True)
class Summary:
    """The figures of `games` finished games; every interval is of 95%, None where too few games give one."""

    games: int
    average: float
    average_interval: Interval | None
    median: float
    median_interval: Interval | None
    best: int
    moves_per_game: float
    moves_per_game_interval: Interval | None
    reached: tuple[Reached, ...]
    outgrown_games: tuple[int, ...]

    @classmethod
    def of(cls, games: Sequence[GameSummary]) -> "Summary":
        """Summarises at least one finished game, in any order."""
        # In one order, so that the same games give the same figures to the last bit.
        games = sorted(games, key=lambda game: game.game)
        scores = [game.score for game in games]
        lengths = [game.moves for game in games]
        reached = []
        for tile in TILES:
            count = sum(game.largest_tile >= tile for game in games)
            reached.append(Reached(tile, count, count / len(games), share_interval(count, len(games))))
        return cls(
            games=len(games),
            average=fmean(scores),
            average_interval=average_interval(scores),
            median=float(median(scores)),
            median_interval=median_interval(scores),
            best=max(scores),
            moves_per_game=fmean(lengths),
            moves_per_game_interval=average_interval(lengths),
            reached=tuple(reached),
            outgrown_games=tuple(game.game for game in games if game.outgrown),
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values, intervals as `[low, high]` or null."""
        return {
            "average": self.average,
            "average_interval": _pair(self.average_interval),
            "median": self.median,
            "median_interval": _pair(self.median_interval),
            "best": self.best,
            "moves_per_game": self.moves_per_game,
            "moves_per_game_interval": _pair(self.moves_per_game_interval),
            "reached": [
                {"tile": row.tile, "games": row.games, "share": row.share, "interval": _pair(row.interval)}
                for row in self.reached
            ],
            "outgrown": len(self.outgrown_games),
            "outgrown_games": list(self.outgrown_games),
        }


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)
