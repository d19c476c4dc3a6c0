"""Plays some games of an evaluation in a task on the cluster, and tells how they go on while they last."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from octofold_game.episodes import Episode

from octofold_client.contenders.local_players import Contender, local_player
from octofold_client.errors import BrokenAnswer, EvaluationError, OctofoldError
from octofold_client.evaluation.evaluate import MoveSource
from octofold_client.evaluation.lockstep import NO_GAMES, PlayedBatch, RunningGames, play
from octofold_client.evaluation.result_folder import Conditions, differences
from octofold_client.evaluation.servers import Servers, sources_of
from octofold_client.rpc.credentials import PLAINTEXT_FILES, CredentialFiles
from octofold_client.wording import describe

NEWS_SECONDS = 0.5
COPY_SECONDS = 5.0
"""How often a task copies its unfinished games. If its node dies, others continue them from there."""


@dataclass(frozen=True)
class TaskPlayer:
    """Who plays: a model of the servers, or a local player if `spec` is not empty."""

    spec: str = ""
    model: str = ""
    version: str = ""
    credentials: CredentialFiles = PLAINTEXT_FILES


@dataclass(frozen=True)
class TaskGames:
    """The games of one task."""

    player: TaskPlayer
    target: str
    """Address of the server; empty for a local player."""
    conditions: Conditions
    """Those of the whole evaluation, which the player of the task must have, too."""
    largest_exponent: int
    games: Sequence[int | Episode]
    """Indices of new games, and unfinished games to continue; all are played at the same time."""


@dataclass
class News:
    """What has happened since the last news of a task."""

    moves: int = 0
    requests: int = 0
    queue_us: int = 0
    inference_us: int = 0
    best_tile: int = 0
    finished: list[Episode] = field(default_factory=list)
    running_games: RunningGames = NO_GAMES
    unfinished: list[Episode] | None = None
    """The games that are not finished; None if they were not copied."""
    failure: str = ""
    """Why the task has ended before its games."""
    is_final: bool = False
    """Whether another task would fail in the same way."""

    def add(self, step: PlayedBatch) -> None:
        """Add a step of the games."""
        self.moves += step.moves
        self.requests += 1
        self.queue_us += step.queue_us
        self.inference_us += step.inference_us
        self.best_tile = max(self.best_tile, step.best_tile)
        self.finished += step.finished


def play_games(work: TaskGames) -> Iterator[News]:
    """Play the games of a task. The last news names a failure if they are not all finished."""
    left: list[Episode] = []
    failure, is_final = "", False
    news = News()
    try:
        with ExitStack() as stack:
            sources = _sources(work, stack)
            steps = play(
                [source.ask for source in sources],
                work.conditions.seed,
                work.games,
                len(work.games),
                work.largest_exponent,
                on_left=left.extend,
            )
            stack.enter_context(closing(steps))
            told = copied = time.monotonic()
            for step in steps:
                news.add(step)
                now = time.monotonic()
                if now - told < NEWS_SECONDS:
                    continue
                if now - copied >= COPY_SECONDS:
                    news.unfinished, copied = step.unfinished(), now
                news.running_games, told = step.running_games(), now
                yield news
                news = News()
    except (BrokenAnswer, EvaluationError) as error:
        failure, is_final = str(error), True
    except (OctofoldError, OSError) as error:
        failure = describe(error)
    news.unfinished, news.failure, news.is_final = left, failure, is_final
    yield news


def _sources(work: TaskGames, stack: ExitStack) -> Sequence[MoveSource]:
    """Who chooses the moves.

    Raises:
        EvaluationError: it is another player than that of the evaluation.
        OctofoldError: the server does not answer.
    """
    player, servers = work.player, None
    contender: Contender
    if player.spec:
        contender = local_player(player.spec)
    else:
        servers = stack.enter_context(Servers([work.target], player.credentials.read()))
        contender = servers.select(player.model, player.version)
    own = Conditions.of(contender, work.conditions.seed)
    if own != work.conditions:
        where = work.target or "a node of the cluster"
        raise EvaluationError(f"{where} has another player: {differences(work.conditions, own)}")
    return sources_of(contender, servers, stack)
