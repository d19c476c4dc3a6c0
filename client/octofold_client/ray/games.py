"""Spreads the games of an evaluation over the tasks of a cluster.

A game depends only on its seed, its index and the player. It is therefore the same game in every task, even
if another task continues it after a node has died.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ray
from octofold_game.episodes import Episode
from ray.exceptions import RayError

from octofold_client.contenders.local_players import Contender, LocalContender, local_player
from octofold_client.errors import BrokenAnswer, ClusterError, EvaluationError, OctofoldError
from octofold_client.evaluation.playing import MoveSource, PlayedBatch, RunningGames, play
from octofold_client.evaluation.result_folder import Conditions, differences
from octofold_client.evaluation.server_connections import Connections, sources_of
from octofold_client.ray import cluster
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
        EvaluationError: the player cannot be made, or it differs from the player of the evaluation.
        OctofoldError: a call to the server failed, or the player is broken.
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
        EvaluationError: the player cannot be made, or it differs from the player of the evaluation.
        OctofoldError: a call to the server failed.
    """
    player, servers = work.player, None
    contender: Contender
    if player.spec:
        contender = local_player(player.spec)
    else:
        servers = stack.enter_context(Connections([work.target], player.credentials()))
        contender = servers.select(player.model, player.version)
    own = Conditions.of(contender, work.conditions.seed)
    if own != work.conditions:
        where = work.target or "a node of the cluster"
        raise EvaluationError(f"{where} has a different player: {differences(work.conditions, own)}")
    return sources_of(contender, servers, stack)


POLL_SECONDS = 0.2
CHUNKS_PER_TASK = 3
"""Target number of chunks for each task that can run at the same time. A fast task can then play more chunks
than a slow one. With many games, there are more chunks."""
BACKOFF_SECONDS = 5.0
"""Time for which a server gets no games after a failure."""
MOST_FAILURES = 8
"""Number of failures, without a move in between, that end the evaluation."""
SAME_FAILURE_SECONDS = 2.0
"""Time within which failures count as one, such as the failures of all tasks of a dead node."""
STALL_SECONDS = 15.0
"""Time without a move after which a remark reports how much of the cluster is free."""


@dataclass(frozen=True)
class RayCluster:
    """Plays games in tasks of a Ray cluster. Use it inside `cluster.connected`."""

    targets: Sequence[str]
    """Addresses of the servers; each serves one task at a time. A local player does not use them."""
    credentials: Callable[[], Credentials]
    """Function that reads the credentials for the servers. Each machine reads its own files."""

    def play(
        self,
        contender: Contender,
        seed: int,
        games: Sequence[int | Episode],
        parallel: int,
        largest_exponent: int,
        remark: Callable[[str], None],
        check: Callable[[], None],
        on_unfinished: Callable[[list[Episode]], None],
    ) -> Generator[PlayedBatch, None, None]:
        """Play games in tasks as `playing.play` does, and yield a batch for each message of a task.

        Args:
            contender: the player.
            seed: seed of the games.
            games: indices of new games, and unfinished games to continue.
            parallel: maximum number of games of a task.
            largest_exponent: a game ends when a tile exceeds 2 to this exponent.
            remark: called with each message to show.
            check: called at least every 0.2 s; an exception from it ends the games.
            on_unfinished: called at the end, even after an error, with games that have begun and not ended.

        Raises:
            BrokenAnswer, EvaluationError: the player is broken, or it is missing or different on a node.
            ClusterError: the cluster has no CPU for a local player, or tasks fail again and again.
        """
        if isinstance(contender, LocalContender):
            player, places = TaskPlayer(spec=contender.spec), [""] * cluster.cpus()
        else:
            player = TaskPlayer("", contender.model, contender.version.version, self.credentials)
            places = list(self.targets)
        if not places:
            raise ClusterError("the Ray cluster has no CPU for a local player: add a node with CPUs")
        size = min(parallel, max(1, -(-len(games) // (CHUNKS_PER_TASK * len(places)))))
        chunks = [_Chunk(games[start : start + size]) for start in range(0, len(games), size)]
        conditions = Conditions.of(contender, seed)
        scheduler = _Scheduler(player, conditions, largest_exponent, places, deque(chunks), remark)
        try:
            while scheduler.waiting or scheduler.running:
                check()
                scheduler.assign()
                scheduler.report_a_stall()
                if not scheduler.running:
                    time.sleep(POLL_SECONDS)
                    continue
                messages = {each.messages: each for each in scheduler.running}
                ready, _ = ray.wait(list(messages), timeout=POLL_SECONDS)
                for one in ready:
                    if (steps := scheduler.receive(messages[one])) is not None:
                        yield scheduler.batch_of(steps)
        finally:
            for each in scheduler.running:
                ray.cancel(each.messages, force=True)
            on_unfinished(scheduler.unfinished())


class _Chunk:
    """Some of the games, which one task plays. If the task fails, another task continues them."""

    def __init__(self, games: Sequence[int | Episode]) -> None:
        self.games = {game.game if isinstance(game, Episode) else game: game for game in games}
        """The games that have not finished, by index."""
        self.messages: Any = None
        """The messages of the task that plays the games."""
        self.place = ""
        """Address of the server of the task; empty for a local player."""


@dataclass(eq=False)
class _Scheduler:
    """Assigns chunks to tasks. A chunk is waiting, running or finished."""

    player: TaskPlayer
    conditions: Conditions
    largest_exponent: int
    places: Sequence[str]
    """Server address of each task that can run at the same time; empty for a local player."""
    waiting: deque[_Chunk]
    remark: Callable[[str], None]
    running: list[_Chunk] = field(default_factory=list)
    _backing_off_until: dict[str, float] = field(default_factory=dict)
    _failures: int = 0
    _failed: float = -math.inf
    """Time at which the last failure was counted."""
    _reported: bool = False
    _moved: float = field(default_factory=time.monotonic)

    def assign(self) -> None:
        """Start tasks for waiting chunks until each server, or each CPU of the cluster, runs one."""
        now = time.monotonic()
        free = Counter(self.places) - Counter(each.place for each in self.running)
        for place in free.elements():
            if not self.waiting:
                return
            if self._backing_off_until.get(place, 0.0) > now:
                continue
            each = self.waiting.popleft()
            games = tuple(each.games.values())
            work = TaskGames(self.player, place, self.conditions, self.largest_exponent, games)
            # A task of a served model needs no CPU: it mostly waits for its server.
            task = ray.remote(play_games).options(
                num_cpus=1 if self.player.spec else 0,
                num_returns="streaming",
                max_retries=0,
                scheduling_strategy="SPREAD",
            )
            each.place, each.messages = place, task.remote(work)
            self.running.append(each)

    def report_a_stall(self) -> None:
        """After `STALL_SECONDS` without a move, report once how much of the cluster is free."""
        if not self._reported and time.monotonic() - self._moved > STALL_SECONDS:
            self._reported = True
            self.remark(
                f"no game has moved for {STALL_SECONDS:g} s; the cluster has {cluster.free_capacity()}"
            )

    def receive(self, each: _Chunk) -> TaskSteps | None:
        """Return the next message of a task. If it has ended, queue its remaining games and return None.

        Raises:
            BrokenAnswer, EvaluationError: another task would fail in the same way.
            ClusterError: too many tasks in a row have failed.
        """
        try:
            steps: TaskSteps = ray.get(next(each.messages))
        except StopIteration:
            self.running.remove(each)
            if each.games:
                self._requeue(each, "the task ended")
            return None
        except (BrokenAnswer, EvaluationError) as error:  # raise the cause without Ray's class
            raise type(error.cause)(str(error.cause)) from None  # type: ignore[union-attr]
        except (OctofoldError, OSError, RayError) as error:
            self.running.remove(each)
            self._requeue(each, cluster.reason(error))
            return None
        for episode in steps.finished:
            each.games.pop(episode.game)
        each.games.update((episode.game, episode) for episode in steps.unfinished)
        self._failures, self._moved, self._reported = 0, time.monotonic(), False
        return steps

    def _requeue(self, each: _Chunk, why: str) -> None:
        """Queue the remaining games of a chunk for another task."""
        now = time.monotonic()
        if now - self._failed > SAME_FAILURE_SECONDS:
            self._failures, self._failed = self._failures + 1, now
        if self._failures >= MOST_FAILURES:
            raise ClusterError(f"tasks failed {MOST_FAILURES} times in a row; the last failure: {why}")
        asking = f" that called {each.place}" if each.place else ""
        self.remark(f"a task{asking} failed, and another task continues its games: {why}")
        if each.place:
            self._backing_off_until[each.place] = now + BACKOFF_SECONDS
        self.waiting.append(_Chunk(list(each.games.values())))

    def batch_of(self, steps: TaskSteps) -> PlayedBatch:
        """Return the batch of moves that a message of a task reports."""
        return PlayedBatch(
            moves=steps.moves,
            finished=steps.finished,
            running=sum(len(each.games) for each in self.running),
            best_tile=steps.best_tile,
            running_games=self._running_games,
            queue_us=steps.queue_us,
            inference_us=steps.inference_us,
            unfinished=self.unfinished,
            requests=steps.requests,
        )

    def _running_games(self) -> RunningGames:
        begun = self.unfinished()
        return RunningGames(
            np.array([len(game) for game in begun], np.int64),
            np.array([game.score for game in begun], np.int64),
        )

    def unfinished(self) -> list[Episode]:
        """Return the games that have begun and not finished, as the tasks last reported them."""
        chunks = [*self.running, *self.waiting]
        return [game for each in chunks for game in each.games.values() if isinstance(game, Episode)]
