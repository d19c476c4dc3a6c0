"""The sides of a comparison: players with the scores of games that were just played or are kept."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from octofold_game.rules import LARGEST_EXPONENT

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
    largest_exponent: int = LARGEST_EXPONENT
    """A game ends when it exceeds this exponent."""
    firm_games: int | None = None
    """Number of games before the first one that is missing because it was still running; None if none is. The
    later games are the short ones, so no answer may follow from them."""

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
    scores, largest = {}, 0
    for episode in folder.finished():
        scores[episode.game] = episode.score
        largest = max(largest, episode.largest_exponent)
    if not scores:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    return Side(conditions.player, conditions, path, scores, largest)


def in_common(sides: Sequence[Side]) -> list[Side]:
    """The sides with the games that all sides of the same seed have, in the order of their indices.

    Raises:
        EvaluationError: there are none.
    """
    return [_within(side, [each for each in sides if _seed(each) == _seed(side)]) for side in sides]


def _within(side: Side, same: Sequence[Side]) -> Side:
    games = sorted(set.intersection(*(set(each.scores) for each in same)))
    if not games:
        raise EvaluationError(f"{' and '.join(each.name for each in same)} have no games in common")
    firm = None
    if any(each.missing_games for each in same):
        start = max(each.conditions.slice.range.start if each.conditions.slice else 0 for each in same)
        firm = next((place for place, game in enumerate(games) if game != start + place), len(games))
    return replace(side, scores={game: side.scores[game] for game in games}, firm_games=firm)


def _seed(side: Side) -> int:
    return side.conditions.seed


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
