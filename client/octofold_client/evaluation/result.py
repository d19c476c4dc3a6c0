"""The result of an evaluation and its JSON form, which docs/results.md describes field by field."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from octofold_game.model import Card, CardError, card_of

from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.evaluation.summary import GameSummary, Summary

SCHEMA = 2
"""Version of the JSON result's form; it grows when a field changes its meaning or goes."""
_READABLE = (1, SCHEMA)
"""Schema 1 had fewer figures, but what they depend on, and the run, in the same fields."""


@dataclass(frozen=True)
class Run:
    """How the run went that finished the evaluation; the moves of earlier runs are in none of its figures."""

    moves: int
    seconds: float
    requests: int
    queue_us: int
    """Sum over the requests, as the server measured it."""
    inference_us: int

    @property
    def moves_per_second(self) -> float | None:
        """None when all games were there already."""
        return self.moves / self.seconds if self.moves else None

    def to_json(self) -> dict[str, Any]:
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
    """All games of an evaluation, what they depend on, and what they say about the model."""

    conditions: Conditions
    games: tuple[GameSummary, ...]
    """In the order of their index, those of earlier runs included."""
    summary: Summary
    card: Card | None
    """The model's; None when the server could not read it, or when only the replays are left."""
    server_version: str | None
    """Version of the program that served, of each program if they differed; None if unknown."""
    run: Run | None
    """None when only the replays are left."""

    @property
    def title(self) -> str:
        games = f"{self.summary.games:,} game{'' if self.summary.games == 1 else 's'}"
        return f"{self.conditions.player}: {games}, seed {self.conditions.seed}"

    @property
    def missing_games(self) -> int:
        """Games that an unfinished evaluation has not got, though it has later ones; 0 when it ended well.

        They are the long ones, which were still running: averages over the others are too low.
        """
        return self.games[-1].game + 1 - len(self.games)

    @property
    def decision_rule(self) -> str | None:
        return None if self.card is None else self.card.decision_rule

    def to_json(self) -> dict[str, Any]:
        """The result file's content."""
        return {
            "schema": SCHEMA,
            **self.conditions.to_json(),
            "decision_rule": self.decision_rule,
            "server_version": self.server_version,
            "games": len(self.games),
            "missing_games": self.missing_games,
            "statistics": self.summary.to_json(),
            "run": None if self.run is None else self.run.to_json(),
            "scores": [asdict(game) for game in self.games],
            "card": None if self.card is None else msgspec.to_builtins(self.card),
        }


def earlier_run(folder: ResultFolder) -> tuple[Card | None, str | None, Run | None]:
    """Card, server version and run that the folder's result file names; all None where there is no such file.

    Raises `EvaluationError` for a result of a version that this program does not read, or a damaged one.
    """
    try:
        result = read_result(folder.result)
    except FileNotFoundError:
        return None, None, None
    try:
        run = result["run"]
        if run is not None:
            run = Run(**{name: run[name] for name in Run.__dataclass_fields__})
        card = None if result["card"] is None else card_of(result["card"])
        return card, result.get("server_version"), run
    except (KeyError, TypeError, CardError) as error:
        raise EvaluationError(f"{folder.result} is damaged: {error!r}") from None


def read_result(file: Path) -> dict[str, Any]:
    """A result file's content. Raises `EvaluationError` for anything else, and `OSError`."""
    try:
        result: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise EvaluationError(f"{file} is damaged: not JSON") from None
    if not isinstance(result, dict) or "schema" not in result:
        raise EvaluationError(f"{file} is not the result of an evaluation")
    if result["schema"] not in _READABLE:
        raise EvaluationError(f"{file}: schema {result['schema']}, this program reads {SCHEMA}")
    return result
