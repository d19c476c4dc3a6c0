"""Reads what reports show from result folders: evaluations with their analyses."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from pathlib import Path

import numpy as np
from octofold_game.episodes import Episode
from octofold_game.trajectories import Climb

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.luck import luck_in
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder, existing
from octofold_client.evaluation.summary import Summary
from octofold_client.provenance import Provenance, runs_of, when
from octofold_client.studies.endings import KeptAnalysis, read_analysis

MOST_RESULTS = 8
"""Results in one report; there are as many colors."""
GAMES_EACH = 3
"""Worst and best games that a report contains."""
LUCKY_GAMES = 2
"""Luckiest games, and as many unluckiest ones, that a report shows."""
COSTLY_MOVES = 5
"""Costly moves that a report shows, with their games."""


@dataclass
class ChosenGames:
    """The worst and the best games of an evaluation, and those that are asked for by their index."""

    wanted: Collection[int] = ()
    extremes: Sequence[int] = ()
    """The indices of the luckiest and the unluckiest games, the luckiest first."""
    worst: list[Episode] = field(default_factory=list)
    """In the order of their scores, the worst first."""
    best: list[Episode] = field(default_factory=list)
    """In the order of their scores, the best first."""
    others: list[Episode] = field(default_factory=list)
    by_luck: list[Episode] = field(default_factory=list)
    """The luckiest and the unluckiest games, in the order of their luck, the largest first."""

    def add(self, episodes: Sequence[Episode]) -> None:
        """Choose among the games so far and these."""
        self.worst = nsmallest(GAMES_EACH, [*self.worst, *episodes], lambda each: (each.score, each.game))
        self.best = nsmallest(GAMES_EACH, [*self.best, *episodes], lambda each: (-each.score, each.game))
        self.others += [episode for episode in episodes if episode.game in self.wanted]
        self.by_luck += [episode for episode in episodes if episode.game in self.extremes]
        self.by_luck.sort(key=lambda each: self.extremes.index(each.game))

    @property
    def all(self) -> dict[int, Episode]:
        """All of them by their index."""
        return {episode.game: episode for episode in (*self.worst, *self.best, *self.by_luck, *self.others)}


@dataclass(frozen=True)
class Shown:
    """An evaluation in a picture, under a name that differs from the others'."""

    name: str
    evaluation: Evaluation
    climb: Climb

    @property
    def summary(self) -> Summary:
        """Its figures; only a finished evaluation has them, and only such a one is drawn."""
        assert self.evaluation.summary is not None
        return self.evaluation.summary


@dataclass(frozen=True)
class EvaluationPart(Shown):
    """An evaluation in a report; its name is the player's, or the folder's if two have the same name."""

    folder: Path
    games: ChosenGames
    values: Judge | None
    """Whose values tell how lucky tiles were; None if they do not."""
    analysis: KeptAnalysis | None
    runs: list[Provenance]
    """Empty for results of older programs."""
    written: str
    """When the last game was written, in words."""


def read_parts(
    folders: Sequence[Path],
    contest: Contest | None = None,
    values: Judge | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[EvaluationPart]:
    """The evaluations in these folders, of a comparison only the compared games.

    Args:
        folders: result folders.
        contest: a comparison of the evaluations.
        values: whose values tell how lucky tiles were; nobody's: None.
        progress: as for `luck_in`.

    Raises:
        EvaluationError: a folder contains no result, or there are too many.
        ReplayError: a replay file is damaged.
        OSError: a file cannot be read.
    """
    if len(folders) > MOST_RESULTS:
        raise EvaluationError(f"a report shows at most {MOST_RESULTS} results, got {len(folders)}")
    compared = {} if contest is None else contest.compared
    evaluations: list[EvaluationPart] = []
    for folder in map(existing, folders):
        taken = {part.name for part in evaluations}
        evaluations.append(_evaluation_part(folder, taken, compared.get(folder), values, progress))
    # Those without a summary have no figures and no pictures.
    evaluations.sort(key=lambda part: part.evaluation.summary is None)
    return evaluations


def _evaluation_part(
    path: Path,
    taken: Collection[str],
    compared: range | None,
    values: Judge | None,
    progress: Callable[[int], None],
) -> EvaluationPart:
    folder, conditions = ResultFolder.of_evaluation(path)
    analysis, climb = read_analysis(path), Climb()
    costly = analysis.costliest[:COSTLY_MOVES] if analysis is not None else []
    extremes: list[int] = []
    luck = None if values is None else luck_in(folder, values, progress)
    if luck is not None:
        order = luck.games[np.argsort(-luck.whole, kind="stable")]
        order = order if compared is None else order[np.isin(order, compared)]
        extremes = list(dict.fromkeys([*order[:LUCKY_GAMES].tolist(), *order[-LUCKY_GAMES:].tolist()]))
    games = ChosenGames({move.game for move in costly}, extremes)
    evaluation = Evaluation.of_folder(folder, climb.add, games.add, games=compared)
    evaluation = evaluation if luck is None else evaluation.adjusted_by(luck)
    name = conditions.player if conditions.player not in taken else str(path)
    written = _written(folder.replays)
    return EvaluationPart(name, evaluation, climb, path, games, values, analysis, runs_of(path), written)


def _written(file: Path) -> str:
    return when(datetime.fromtimestamp(file.stat().st_mtime, UTC))
