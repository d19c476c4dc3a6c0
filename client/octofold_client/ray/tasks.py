"""Plays some games of an evaluation in a task on the cluster, and reports their progress."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from octofold_game.episodes import Episode

from octofold_client.contenders.local_players import Contender, local_player
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.lockstep import MoveSource, PlayedBatch, play
from octofold_client.evaluation.result_folder import Conditions, differences
from octofold_client.evaluation.servers import Servers, sources_of
from octofold_client.rpc.credentials import Credentials

MESSAGE_SECONDS = 0.5
COPY_SECONDS = 5.0
"""Interval at which a task sends copies of its unfinished games. If its node dies, other tasks continue from
the copies."""


@dataclass(frozen=True)
class TaskPlayer:
    """The player of a task: a local player if `spec` is not empty, otherwise a model of the servers."""

    spec: str = ""
    model: str = ""
    version: str = ""
    credentials: Callable[[], Credentials] = Credentials
    """Function that reads the credentials for the servers. The task calls it on its own machine."""


@dataclass(frozen=True)
class TaskGames:
    """The games of one task."""

    player: TaskPlayer
    target: str
    """Address of the server; empty for a local player."""
    conditions: Conditions
    """The conditions of the whole evaluation. The player of the task must match them."""
    largest_exponent: int
    games: Sequence[int | Episode]
    """Indices of new games, and unfinished games to continue; all are played at the same time."""


@dataclass
class TaskSteps:
    """A message of a task: the changes since its last message."""

    moves: int = 0
    requests: int = 0
    queue_us: int = 0
    inference_us: int = 0
    best_tile: int = 0
    finished: list[Episode] = field(default_factory=list)
    unfinished: list[Episode] = field(default_factory=list)
    """Copies of the games that have begun and not finished; empty in most messages (`COPY_SECONDS`)."""

    def add(self, step: PlayedBatch) -> None:
        """Add a played batch of moves."""
        self.moves += step.moves
        self.requests += 1
        self.queue_us += step.queue_us
        self.inference_us += step.inference_us
        self.best_tile = max(self.best_tile, step.best_tile)
        self.finished += step.finished


def play_games(work: TaskGames) -> Iterator[TaskSteps]:
    """Play the games of a task.

    Raises:
        EvaluationError: the task has another player than the evaluation.
        OctofoldError: the server does not answer, or the player is broken.
    """
    with ExitStack() as stack:
        asks = [source.ask for source in _sources(work, stack)]
        seed, games = work.conditions.seed, work.games
        steps = stack.enter_context(closing(play(asks, seed, games, len(games), work.largest_exponent)))
        message = TaskSteps()
        sent = copied = time.monotonic()
        for step in steps:
            message.add(step)
            now = time.monotonic()
            if now - sent < MESSAGE_SECONDS:
                continue
            if now - copied >= COPY_SECONDS:
                message.unfinished, copied = step.unfinished(), now
            yield message
            message, sent = TaskSteps(), now
        yield message


def _sources(work: TaskGames, stack: ExitStack) -> Sequence[MoveSource]:
    """Return the sources of the moves.

    Raises:
        EvaluationError: the player differs from that of the evaluation.
        OctofoldError: the server does not answer.
    """
    player, servers = work.player, None
    contender: Contender
    if player.spec:
        contender = local_player(player.spec)
    else:
        servers = stack.enter_context(Servers([work.target], player.credentials()))
        contender = servers.select(player.model, player.version)
    own = Conditions.of(contender, work.conditions.seed)
    if own != work.conditions:
        where = work.target or "a node of the cluster"
        raise EvaluationError(f"{where} has a different player: {differences(work.conditions, own)}")
    return sources_of(contender, servers, stack)
