"""The sides of a comparison: players with the scores of new games or of a result folder."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from octofold_game.contract.results import Completeness
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.luck import AdjustedAverage, Luck, luck_in
from octofold_client.evaluation.result_folder import Conditions, ResultFolder


@dataclass(frozen=True)
class Side:
    """A player and its games of one seed."""

    name: str
    conditions: Conditions
    folder: Path
    """The result folder with the replays of the games."""
    scores: Mapping[int, int]
    """The score of each game, by the game's index."""
    completeness: Completeness
    """The numbers of finished and missing games. Sides with missing games are not compared."""
    largest_exponent: int = LARGEST_EXPONENT
    """Largest exponent that the player can play with: a game ends when a tile exceeds 2 to it."""
    luck: Luck | None = None
    """The luck of these games; None without luck adjustment."""

    def with_luck(self, values: Judge | None, progress: Callable[[int], None]) -> "Side":
        """Return this side with the luck of its games; unchanged if `values` is None or games are missing.

        `values` is the value function that measures luck. For `progress`, see `luck_in`.
        """
        if values is None or not self.finished:
            return self
        luck = luck_in(ResultFolder(self.folder), values, progress)
        return replace(self, luck=luck.of(sorted(self.scores)))

    @property
    def adjusted(self) -> AdjustedAverage | None:
        """The luck-adjusted average; None without luck adjustment or for too few games."""
        scores = np.array([self.scores[game] for game in sorted(self.scores)], np.int64)
        return None if self.luck is None else AdjustedAverage.of(scores, self.luck)

    @property
    def finished(self) -> bool:
        """Whether no game is missing."""
        return not self.completeness.missing


def read_side(path: Path) -> Side:
    """Read the finished games of a result folder, even if games are missing.

    Raises:
        EvaluationError: the folder is missing, is not an intact result folder, or has no finished game.
        ReplayError: its replay file is damaged.
    """
    folder, conditions = ResultFolder.of_evaluation(path)
    exponents = {0}
    games, completeness = folder.read(lambda episode: exponents.add(episode.largest_exponent))
    if not games:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    scores = {each.game: each.score for each in games}
    return Side(conditions.player, conditions, path, scores, completeness, max(exponents))


def with_common_games(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with only the games that all finished sides have, in the order of the indices.

    A side with missing games is returned unchanged, and its games do not count. It cannot be compared by its
    finished games: short games finish first, so their average is too low.

    Raises:
        EvaluationError: the seeds differ, or the finished sides have no games in common.
    """
    first = sides[0]
    for side in sides:
        if side.conditions.seed != first.conditions.seed:
            raise EvaluationError(
                f"{first.name} played seed {first.conditions.seed} and {side.name} seed "
                f"{side.conditions.seed}: evaluate one of them with the seed of the other (--seed)"
            )
    finished = [side for side in sides if side.finished]
    games = sorted(set[int].intersection(*(set(side.scores) for side in finished))) if finished else []
    if finished and not games:
        names = " and ".join(side.name for side in finished)
        raise EvaluationError(f"{names} have no games in common: use the same --games and --slice for all")

    def reduced(side: Side) -> Side:
        luck = side.luck and side.luck.of(games)
        return replace(side, scores={game: side.scores[game] for game in games}, luck=luck)

    return [reduced(side) if side.finished else side for side in sides]


def with_distinct_names(sides: Sequence[Side]) -> list[Side]:
    """Return the sides, with sides of the same name renamed to the paths of their folders."""
    names = Counter(side.name for side in sides)
    return [replace(side, name=str(side.folder)) if names[side.name] > 1 else side for side in sides]
