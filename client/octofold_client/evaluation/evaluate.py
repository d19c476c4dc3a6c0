"""Evaluations: games of one model version on one seed, kept as they finish and summed up at the end.

It connects the games in lockstep, the folder that keeps them, and the figures.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.contender import Contender
from octofold_client.evaluation.lockstep import Answer, Step, play
from octofold_client.evaluation.report import report
from octofold_client.evaluation.result import Evaluation, Run
from octofold_client.evaluation.result_folder import Conditions, KeptGames, ResultFolder
from octofold_client.evaluation.summary import GameSummary, Summary


class Progress(Protocol):
    """Wants to know how an evaluation goes."""

    def resume(self, finished: list[GameSummary], /) -> None:
        """Called once, before the first step, with the games that earlier runs finished."""

    def update(self, step: Step, finished: list[GameSummary], /) -> None:
        """Called after each step, with its finished games."""

    def remark(self, text: str, /) -> None:
        """Something that people should know."""


class Source(Protocol):
    """Where moves come from: a `Client`, or a player in this process."""

    @property
    def target(self) -> str: ...

    def server_version(self) -> str | None: ...

    def begin_next_moves(self, boards: NDArray[np.uint8], *, with_probabilities: bool) -> Answer: ...


def evaluate(
    sources: Sequence[Source],
    contender: Contender,
    folder: ResultFolder,
    *,
    seed: int,
    games: int,
    parallel: int,
    progress: Progress,
    while_waiting: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Plays those of the games 0 .. `games` - 1 that `folder` does not hold yet, then writes the result.
    Those that an earlier run left unfinished go on from where they stood.

    Every one of `sources` must answer with the moves of `contender`; they share the games, and those of a
    server that fails go on at the others. At most `parallel` games run at a time. `while_waiting` is
    called between any two steps and every moment between them; what it raises ends the evaluation, with all
    games kept, the unfinished ones too.

    Raises:
        OtherEvaluation: the folder holds games of other conditions.
        FolderInUse: another program is playing games into it.
        OctofoldError: the last server failed; all games are kept in the folder.
        ReplayError: the folder's replay file is damaged.
        OSError: the folder cannot be written.
    """
    conditions = Conditions.of(contender, seed)
    largest = contender.largest_exponent or LARGEST_EXPONENT
    programs = sorted({program for source in sources if (program := source.server_version()) is not None})
    with folder.open(conditions) as kept:
        done = {game.game: game for game in kept.games if game.game < games}
        # Of a player that has learnt of larger tiles since, games begin anew.
        unfinished = [episode for episode in kept.unfinished if episode.largest_exponent == largest]
        begun = {episode.game: episode for episode in unfinished if episode.game < games}
        beyond = [episode for episode in unfinished if episode.game >= games]
        progress.resume(list(done.values()))
        known = done.keys() | begun.keys()
        steps = play(
            [partial(source.begin_next_moves, with_probabilities=False) for source in sources],
            seed,
            [*begun.values(), *(game for game in range(games) if game not in known)],
            parallel,
            largest,
            while_waiting,
            lambda server, error: progress.remark(
                f"{sources[server].target} is asked no more, its games go on elsewhere: {error}"
            ),
            lambda left: kept.leave(left + beyond),
        )
        run = _follow(steps, kept, done, progress, while_waiting)
    evaluation = Evaluation(
        conditions=conditions,
        games=tuple(done[game] for game in range(games)),
        summary=Summary.of(list(done.values())),
        card=contender.version.card,
        server_version=", ".join(programs) or None,
        run=run,
    )
    folder.write_result(evaluation.to_json(), report(evaluation))
    return evaluation


def _follow(
    steps: Generator[Step, None, None],
    kept: KeptGames,
    done: dict[int, GameSummary],
    progress: Progress,
    while_waiting: Callable[[], None],
) -> Run:
    """Makes all steps; keeps the games that finish, and adds them to `done`."""
    started = time.monotonic()
    moves = requests = queue_us = inference_us = 0
    with closing(steps):
        for step in steps:
            finished = kept.append(step.finished)
            done.update((game.game, game) for game in finished)
            moves += step.moves
            requests += 1
            queue_us += step.queue_us
            inference_us += step.inference_us
            progress.update(step, finished)
            while_waiting()
    return Run(moves, time.monotonic() - started, requests, queue_us, inference_us)
