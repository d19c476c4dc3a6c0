"""Reads all that a report shows of an evaluation from its result folder."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from octofold_game.episodes import Episode

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.luck import luck_in
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.provenance import Provenance, format_utc, runs_of
from octofold_client.studies.analysis import Analysis, read_analysis

MOST_RESULTS = 8
"""Maximum number of results in one report, which gives each result a color."""
GAMES_EACH = 3
"""Number of best games, and number of worst games, that a report shows of each result."""
LUCKY_GAMES = 2
"""Number of luckiest games, and number of unluckiest games, that a report shows of each result."""
COSTLY_MOVES = 5
"""Number of costly moves that a report shows of each result, with their games."""


@dataclass(frozen=True)
class EvaluationPart:
    """Everything that a report shows of an evaluation."""

    name: str
    """The player's name, or the folder's path if an earlier part has this name."""
    evaluation: Evaluation
    folder: Path
    games: dict[str, list[Episode]]
    """Games to click through, by heading; a game may be in several lists."""
    by_luck: list[Episode]
    """The luckiest games, then the unluckiest games; empty without `values`."""
    values: Judge | None
    """The value function that measures luck; None if luck is not shown."""
    analysis: Analysis | None
    runs: list[Provenance]
    """The runs of the evaluation; empty for results of older programs."""
    written: str
    """Time at which the last game was written, as text."""


def read_parts(
    folders: Sequence[Path],
    contest: Contest | None = None,
    values: Judge | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[EvaluationPart]:
    """Read the evaluations in these folders; unfinished evaluations come last.

    Args:
        folders: result folders.
        contest: a comparison of the evaluations. With it, finished ones show only the compared games.
        values: the value function that measures luck; with None, luck is not shown.
        progress: called with the number of games of the current folder whose luck is computed so far.

    Raises:
        EvaluationError: a folder has no finished game, a file is damaged, or there are too many folders.
        ReplayError: a replay file is damaged.
        OSError: a file cannot be read.
    """
    if len(folders) > MOST_RESULTS:
        raise EvaluationError(f"a report shows at most {MOST_RESULTS} results, got {len(folders)}")
    compared = {} if contest is None else contest.compared
    parts: list[EvaluationPart] = []
    for folder in folders:
        parts.append(_read(folder, {part.name for part in parts}, compared.get(folder), values, progress))
    return sorted(parts, key=lambda part: part.evaluation.summary is None)


def _read(
    path: Path,
    taken: Collection[str],
    compared: range | None,
    values: Judge | None,
    progress: Callable[[int], None],
) -> EvaluationPart:
    folder, conditions = ResultFolder.of_evaluation(path)
    analysis = read_analysis(path)
    evaluation = Evaluation.of_folder(folder, games=compared)
    by_score = [each.game for each in sorted(evaluation.games, key=lambda each: (each.score, each.game))]
    by_luck: list[int] = []
    if values is not None:
        luck = luck_in(folder, values, progress)
        order = luck.games[np.argsort(-luck.in_points, kind="stable")]
        order = order if compared is None else order[np.isin(order, compared)]
        by_luck = list(dict.fromkeys([*order[:LUCKY_GAMES].tolist(), *order[-LUCKY_GAMES:].tolist()]))
        evaluation = evaluation.adjusted_by(luck)
    costly = [] if analysis is None else [move.game for move in analysis.costliest[:COSTLY_MOVES]]
    chosen = {
        "Worst": by_score[:GAMES_EACH],
        "Best": by_score[: -GAMES_EACH - 1 : -1],
        "Luckiest and unluckiest": by_luck,
        "With costly moves": costly,
    }
    wanted = set().union(*chosen.values())
    episodes = {episode.game: episode for episode in folder.finished() if episode.game in wanted}
    games = {kind: [episodes[game] for game in games if game in episodes] for kind, games in chosen.items()}
    written = format_utc(datetime.fromtimestamp(folder.replays.stat().st_mtime, UTC))
    return EvaluationPart(
        name=conditions.player if conditions.player not in taken else str(path),
        evaluation=evaluation,
        folder=path,
        games=games,
        by_luck=[episodes[game] for game in by_luck],
        values=values,
        analysis=analysis,
        runs=runs_of(path),
        written=written,
    )
