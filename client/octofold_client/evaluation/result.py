"""The result of an evaluation and its JSON form, which docs/results.md describes field by field."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from octofold_game.contract.model import Card, CardError, card_of
from octofold_game.contract.results import RESULT_SCHEMA, RESULT_SCHEMAS, Completeness
from octofold_game.episodes import Episode

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.luck import MIN_GAMES_TO_ADJUST, AdjustedAverage, Luck, luck_in
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.evaluation.summary import GameSummary, Summary, column
from octofold_client.wording import counted

_FIELDS = tuple(field.name for field in fields(GameSummary))


@dataclass(frozen=True)
class RunFigures:
    """Figures of the last run of an evaluation, or the sums over the slices of a merged evaluation."""

    moves: int
    seconds: float
    requests: int
    queue_us: int
    """Sum of the times in microseconds that requests waited in the server's queue, measured by the server."""
    inference_us: int

    @classmethod
    def sum(cls, runs: Sequence["RunFigures"]) -> "RunFigures | None":
        """Return the sum of each figure over the runs; None for no runs."""
        if not runs:
            return None
        return cls(**{name: sum(getattr(run, name) for run in runs) for name in cls.__dataclass_fields__})

    @property
    def moves_per_second(self) -> float | None:
        """Moves per second; None if earlier runs played all games."""
        return self.moves / self.seconds if self.moves else None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        return {
            "moves": self.moves,
            "seconds": round(self.seconds, 3),
            "moves_per_second": self.moves_per_second,
            "requests": self.requests,
            "queue_us": self.queue_us,
            "inference_us": self.inference_us,
        }


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation: its conditions, games and figures."""

    conditions: Conditions
    games: Sequence[GameSummary]
    """The finished games of all runs, in the order of their indices."""
    completeness: Completeness
    card: Card | None
    """The model card; None for a local player, if the server could not read it, or without a result file."""
    server_version: str | None
    """Version of `octofold-serve`, or all versions with commas if servers differed; None if unknown."""
    run: RunFigures | None
    """Figures of the last run; None without a result file."""
    adjusted: AdjustedAverage | None = None
    """The luck-adjusted average; None if luck was not adjusted, or if games are missing or too few."""

    @classmethod
    def of_folder(
        cls,
        folder: ResultFolder,
        on_game: Callable[[Episode], None] = lambda _: None,
        games: range | None = None,
    ) -> "Evaluation":
        """Read the evaluation in a folder. For `on_game` and `games`, see `ResultFolder.read`.

        Raises:
            EvaluationError: the folder contains no evaluation or no finished games, or a file is damaged.
            ReplayError: the replay file is damaged.
        """
        earlier = earlier_run(folder)
        finished, completeness = folder.read(on_game, games)
        if not finished:
            raise EvaluationError(f"{folder.replays} contains no finished games")
        return cls(folder.of_evaluation(folder.path)[1], finished, completeness, *earlier)

    @cached_property
    def summary(self) -> Summary | None:
        """The figures of all games; None if games are missing (`completeness` has the reason)."""
        return None if self.completeness.missing else Summary.of(self.games)

    def with_luck(
        self, folder: ResultFolder, values: Judge | None, progress: Callable[[int], None]
    ) -> "Evaluation":
        """Return this evaluation with its luck-adjusted average; unchanged if games are missing or too few.

        Args:
            folder: the result folder with the games.
            values: the value function that measures luck; None for no adjustment.
            progress: see `luck_in`, which also lists the errors.
        """
        if values is None or self.completeness.missing or len(self.games) < MIN_GAMES_TO_ADJUST:
            return self
        return self.adjusted_by(luck_in(folder, values, progress))

    def adjusted_by(self, luck: Luck) -> "Evaluation":
        """Return this evaluation with the average adjusted by `luck`; unchanged if games are missing."""
        if self.completeness.missing:
            return self
        games, scores = column(self.games, "game"), column(self.games, "score")
        return replace(self, adjusted=AdjustedAverage.of(scores, luck.of(games.tolist())))

    @property
    def title(self) -> str:
        """A title with player, number of finished games, seed and, if any, slice."""
        games = counted(len(self.games), "game")
        part = f", slice {self.conditions.slice}" if self.conditions.slice else ""
        return f"{self.conditions.player}: {games}, seed {self.conditions.seed}{part}"

    @property
    def decision_rule(self) -> str | None:
        """The model's decision rule, from its card; None if unknown."""
        return None if self.card is None else self.card.decision_rule

    def to_json(self) -> dict[str, Any]:
        """Return the content of the result file."""
        return {**self._json_without_scores(), "scores": list(self._score_rows())}

    def write(self, folder: ResultFolder, report: str) -> None:
        """Write the result file and the report. Scores are written row by row to save memory.

        Raises:
            OSError: a file cannot be written.
        """
        folder.write_result(self._json_without_scores(), self._score_rows(), report)

    def _score_rows(self) -> Iterator[dict[str, Any]]:
        return ({name: getattr(game, name) for name in _FIELDS} for game in self.games)

    def _json_without_scores(self) -> dict[str, Any]:
        return {
            "schema": RESULT_SCHEMA,
            **self.conditions.to_json(),
            "slice": self.conditions.slice and asdict(self.conditions.slice),
            "decision_rule": self.decision_rule,
            "server_version": self.server_version,
            "games": len(self.games),
            "planned_games": self.completeness.planned,
            "missing_games": self.completeness.missing,
            "running_games": self.completeness.running,
            "lost_games": self.completeness.lost,
            "unfinished": self.completeness.reason or None,
            "statistics": self.summary and self.summary.to_json(),
            "without_luck": None if self.adjusted is None else asdict(self.adjusted),
            "run": None if self.run is None else self.run.to_json(),
            "scores": [],
            "card": None if self.card is None else msgspec.to_builtins(self.card),
        }


def earlier_run(folder: ResultFolder) -> tuple[Card | None, str | None, RunFigures | None]:
    """Return `card`, `server_version` and `run` of the result file; three times None without the file.

    Raises:
        EvaluationError: the file is damaged, or its version is unknown.
    """
    try:
        result = read_result(folder.result)
    except FileNotFoundError:
        return None, None, None
    try:
        run = msgspec.convert(result["run"], RunFigures | None)
        card = None if result["card"] is None else card_of(result["card"])
        return card, msgspec.convert(result.get("server_version"), str | None), run
    except (KeyError, TypeError, CardError, msgspec.ValidationError) as error:
        raise EvaluationError(f"{folder.result} is damaged: a field is missing or invalid: {error}") from None


def read_result(file: Path) -> dict[str, Any]:
    """Return the content of a result file, without its scores.

    Raises:
        EvaluationError: the file is damaged, or its version is unknown.
        OSError: the file cannot be read.
    """
    try:
        # The scores are most of the file. As Python objects, they could take gigabytes.
        raw: Any = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
        result = {name: msgspec.json.decode(value) for name, value in raw.items() if name != "scores"}
    except msgspec.ValidationError:
        raise EvaluationError(f"{file} is not the result of an evaluation") from None
    except (ValueError, RecursionError):
        raise EvaluationError(f"{file} is damaged: it is not JSON") from None
    if "schema" not in result:
        raise EvaluationError(f"{file} is not the result of an evaluation")
    if result["schema"] not in RESULT_SCHEMAS:
        raise EvaluationError(
            f"{file} has schema {result['schema']}, but this program reads schema {RESULT_SCHEMA} and "
            "earlier: update Octofold"
        )
    return result
