"""Evaluations: games of one model version on one seed, kept as they finish and summed up at the end.

It ties together the games in lockstep, the folder that keeps them, and the figures; it knows neither the
terminal nor where the server came from.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.client import Client
from octofold_client.lockstep import play
from octofold_client.progress import Progress
from octofold_client.results import Conditions, ResultFolder
from octofold_client.selection import Selected
from octofold_client.summary import GameSummary, Summary

SCHEMA = 1
"""Version of the JSON result's form; it grows when a field changes its meaning or goes."""


@dataclass(frozen=True)
class Evaluation:
    """All games of an evaluation, and how the run that finished it went."""

    conditions: Conditions
    games: tuple[GameSummary, ...]
    """In the order of their index, those of earlier runs included."""
    summary: Summary
    card: dict[str, Any] | None
    moves: int
    """Moves made by this run; earlier runs are not counted in any of the figures from here on."""
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
        """The result file's content."""
        card = self.card or {}
        return {
            "schema": SCHEMA,
            **self.conditions.to_json(),
            "decision_rule": card.get("decision_rule"),
            "games": len(self.games),
            "statistics": self.summary.to_json(),
            "run": {
                "moves": self.moves,
                "seconds": round(self.seconds, 3),
                "moves_per_second": self.moves_per_second,
                "requests": self.requests,
                "queue_us": self.queue_us,
                "inference_us": self.inference_us,
            },
            "scores": [vars(game) for game in self.games],
            "card": self.card,
        }


def evaluate(
    client: Client,
    selected: Selected,
    folder: ResultFolder,
    *,
    seed: int,
    games: int,
    parallel: int,
    progress: Progress,
    after_step: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Plays those of the games 0 .. `games` - 1 that `folder` does not hold yet, then writes the result.

    `client` must ask for the `selected` version. At most `parallel` games run at a time, in two half-groups.
    `after_step` is called between any two steps; what it raises ends the evaluation, with all finished games
    kept.

    Raises:
        OtherEvaluation: the folder holds games of other conditions.
        FolderInUse: another program is playing games into it.
        OctofoldError: the server failed; finished games are in the folder.
        ReplayError: the folder's replay file is damaged.
        OSError: the folder cannot be written.
    """
    conditions = Conditions.of(selected, seed)
    with folder.open(conditions) as kept:
        done = {game.game: game for game in kept.games if game.game < games}
        progress.resume(list(done.values()))
        started = time.monotonic()
        moves = requests = queue_us = inference_us = 0
        steps = play(
            lambda boards: client.begin_next_moves(boards, with_probabilities=False),
            seed,
            [game for game in range(games) if game not in done],
            parallel,
            selected.largest_exponent or LARGEST_EXPONENT,
        )
        for step in steps:
            finished = kept.append(step.finished)
            done.update((game.game, game) for game in finished)
            moves += step.moves
            requests += 1
            queue_us += step.queue_us
            inference_us += step.inference_us
            progress.update(step.moves, step.running, step.best_tile, finished)
            after_step()
        seconds = time.monotonic() - started
    evaluation = Evaluation(
        conditions=conditions,
        games=tuple(done[game] for game in range(games)),
        summary=Summary.of(list(done.values())),
        card=selected.version.card,
        moves=moves,
        seconds=seconds,
        requests=requests,
        queue_us=queue_us,
        inference_us=inference_us,
    )
    folder.write_result(evaluation.to_json())
    return evaluation
