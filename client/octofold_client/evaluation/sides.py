"""The sides of a comparison: players with the scores of games that were just played or are kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import Conditions, ResultFolder


@dataclass(frozen=True)
class Side:
    """One player and its games of one seed."""

    name: str
    conditions: Conditions
    folder: Path
    """The result folder with the replays of the games."""
    scores: Mapping[int, int]
    """By the index of the game."""

    @property
    def missing_games(self) -> int:
        """See `Conditions.missing_games`."""
        return self.conditions.missing_games(self.scores)


def read_side(path: Path) -> Side:
    """The games that a result folder keeps, finished or not.

    Raises:
        EvaluationError: the folder does not exist, is not a result folder or contains no finished game.
        ReplayError: its replay file is damaged.
    """
    folder, conditions = ResultFolder.of_evaluation(path)
    scores = {episode.game: episode.score for episode in folder.finished()}
    if not scores:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    return Side(conditions.player, conditions, path, scores)


def named_apart(sides: Sequence[Side]) -> list[Side]:
    """The same sides; those that have their name in common also by their seeds, or else by their folders."""
    names = Counter(side.name for side in sides)
    seeds = Counter((side.name, side.conditions.seed) for side in sides)

    def name(side: Side) -> str:
        if names[side.name] == 1:
            return side.name
        seed = side.conditions.seed
        return f"{side.name} seed {seed}" if seeds[side.name, seed] == 1 else str(side.folder)

    return [replace(side, name=name(side)) for side in sides]
