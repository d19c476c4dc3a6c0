"""Spreads the games of an evaluation over the tasks of a cluster.

A game depends only on its seed, its index and the player, so it is the same game wherever it is played, and
whichever task continues it after its node has died.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import ray
from octofold_game.episodes import Episode
from ray.exceptions import RayError

from octofold_client.contenders.local_players import Contender, LocalContender
from octofold_client.errors import ClusterError, EvaluationError
from octofold_client.evaluation.lockstep import NO_GAMES, PlayedBatch, RunningGames
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.ray import cluster
from octofold_client.ray.tasks import News, TaskGames, TaskPlayer, play_games
from octofold_client.rpc.credentials import CredentialFiles

SLICE_SECONDS = 0.2
SLICES_PER_TASK = 3
"""Slices for each task that can run at the same time: the games of a task that ends early go to others."""
SHUN_SECONDS = 5.0
"""A server that failed gets no games for this time."""
FAILURES = 8
"""Failures in a row, without a move in between, that end the evaluation."""
TOGETHER_SECONDS = 2.0
"""Tasks that fail within this time of each other, such as those of a node that dies, are one failure."""
STILL_SECONDS = 15.0
"""After so long without a move, a remark tells how much of the cluster is free."""


@dataclass(eq=False)
class _Slice:
    """Games that one task plays, and another one if it fails."""

    games: dict[int, int | Episode]
    """What is left of them, by index."""
    answers: Any = None
    """The news of the task that plays them."""
    place: str = ""
    """Address of the server that is asked there; empty for a local player."""
    running_games: RunningGames = NO_GAMES


@dataclass
class ClusterGames:
    """Plays games on the cluster, as `evaluation.evaluate` wants it; inside `cluster.connected`.

    Args:
        player: who plays.
        conditions: conditions of the evaluation.
        parallel: maximum number of games of a task.
        targets: addresses of the servers, each of which has one task; not used by a local player.
        remark: called with a message for people.
        check: called at least every 0.2 s; an exception from it ends the games.
    """

    player: TaskPlayer
    conditions: Conditions
    parallel: int
    targets: Sequence[str]
    remark: Callable[[str], None]
    check: Callable[[], None]
    _waiting: deque[_Slice] = field(default_factory=deque, init=False)
    _running: list[_Slice] = field(default_factory=list, init=False)
    _begun: deque[Episode] = field(default_factory=deque, init=False)
    _new: Iterator[int] = field(default_factory=lambda: iter(()), init=False)
    _uncut: int = field(default=0, init=False)
    _size: int = field(default=1, init=False)
    _shunned: dict[str, float] = field(default_factory=dict, init=False)
    _failures: int = field(default=0, init=False)
    _failed: float = field(default=-math.inf, init=False)
    "when the last of them was counted"
    _reported: bool = field(default=False, init=False)
    _moved: float = field(default_factory=time.monotonic, init=False)
    _places: Sequence[str] = field(default=(), init=False)
    "of tasks: the servers, or a place without a name for each CPU"

    def __call__(
        self,
        games: Sequence[int | Episode],
        largest_exponent: int,
        on_left: Callable[[list[Episode]], None],
    ) -> Generator[PlayedBatch, None, None]:
        """Play games and yield a step for each news of a task.

        Args:
            games: indices of new games, and unfinished games to continue.
            largest_exponent: a game ends when it exceeds this exponent.
            on_left: called at the end, whatever its cause, with the games that have begun and not finished.

        Raises:
            EvaluationError: a node has another player.
            ClusterError: the cluster has no CPU for a local player, or tasks fail again and again.
        """
        # Indices are taken one by one: a million of them may wait.
        self._begun = deque(game for game in games if isinstance(game, Episode))
        self._new = (game for game in games if not isinstance(game, Episode))
        self._uncut = len(games)
        self._places = [""] * cluster.cpus() if self.player.spec else self.targets
        if not self._places:
            raise ClusterError("the cluster has no CPUs for a local player")
        self._size = min(self.parallel, max(1, -(-len(games) // (SLICES_PER_TASK * len(self._places)))))
        try:
            while self._waiting or self._uncut or self._running:
                self.check()
                self._assign(largest_exponent)
                self._report_if_nothing_moves()
                if not self._running:
                    time.sleep(SLICE_SECONDS)
                    continue
                answers = {each.answers: each for each in self._running}
                ready, _ = ray.wait(list(answers), timeout=SLICE_SECONDS)
                for one in ready:
                    news = self._hear(answers[one])
                    if news.requests or news.finished:
                        yield self._step(news)
        finally:
            for each in self._running:
                ray.cancel(each.answers, force=True)
            on_left(self._unfinished())

    def _next_slice(self) -> _Slice | None:
        """A slice whose task failed, or else a new one; None if all games are in slices that run."""
        if self._waiting:
            return self._waiting.popleft()
        begun = [self._begun.popleft() for _ in range(min(self._size, len(self._begun)))]
        games = {episode.game: episode for episode in begun}
        new = {game: game for game in islice(self._new, self._size - len(begun))}
        self._uncut -= len(games) + len(new)
        return _Slice({**games, **new}) if games or new else None

    def _assign(self, largest_exponent: int) -> None:
        """Give waiting slices to tasks: one for each server, or for each CPU of the cluster."""
        if not self._waiting and not self._uncut:
            return
        for place in self._free_places():
            if (each := self._next_slice()) is None:
                return
            games = tuple(each.games.values())
            work = TaskGames(self.player, place, self.conditions, largest_exponent, games)
            # A task of a served model waits most of the time, for a server that has its own CPUs.
            task = ray.remote(play_games).options(
                num_cpus=1 if self.player.spec else 0,
                num_returns="streaming",
                max_retries=0,
                scheduling_strategy="SPREAD",
            )
            each.place, each.answers = place, task.remote(work)
            self._running.append(each)

    def _free_places(self) -> list[str]:
        """The places that no task uses and that have not just failed."""
        now = time.monotonic()
        free = Counter(self._places) - Counter(each.place for each in self._running)
        return [place for place in free.elements() if self._shunned.get(place, 0.0) <= now]

    def _report_if_nothing_moves(self) -> None:
        if not self._reported and time.monotonic() - self._moved > STILL_SECONDS:
            self._reported = True
            self.remark(f"no game has moved for a while; the cluster has {cluster.room()}")

    def _hear(self, each: _Slice) -> News:
        """Take the next news of a task, and put its slice back if the task has ended before its games."""
        try:
            news: News = ray.get(next(each.answers))
        except StopIteration:
            self._running.remove(each)
            if each.games:
                self._put_back(each, "the task ended")
            return News()
        except RayError as error:
            self._running.remove(each)
            self._put_back(each, cluster.reason(error))
            return News()
        for episode in news.finished:
            each.games.pop(episode.game)
        if news.unfinished is not None:
            each.games.update((episode.game, episode) for episode in news.unfinished)
        each.running_games = news.running_games
        if news.moves:
            self._failures, self._moved, self._reported = 0, time.monotonic(), False
        if news.failure:
            if news.is_final:
                raise EvaluationError(news.failure)
            self._running.remove(each)
            self._put_back(each, news.failure)
        return news

    def _put_back(self, each: _Slice, why: str) -> None:
        """Let another task play the rest of a slice.

        Raises:
            ClusterError: too many tasks in a row have failed.
        """
        now = time.monotonic()
        if now - self._failed > TOGETHER_SECONDS:
            self._failures, self._failed = self._failures + 1, now
        if self._failures >= FAILURES:
            raise ClusterError(f"tasks failed {FAILURES} times in a row; the last one: {why}")
        asking = f" that asked {each.place}" if each.place else ""
        self.remark(f"a task{asking} failed, and another continues its games: {why}")
        if each.place:
            self._shunned[each.place] = now + SHUN_SECONDS
        self._waiting.append(replace(each, answers=None, place="", running_games=NO_GAMES))

    def _step(self, news: News) -> PlayedBatch:
        return PlayedBatch(
            moves=news.moves,
            finished=news.finished,
            running=sum(len(each.games) for each in self._running),
            best_tile=news.best_tile,
            running_games=self._running_games,
            queue_us=news.queue_us,
            inference_us=news.inference_us,
            unfinished=self._unfinished,
            requests=news.requests,
        )

    def _running_games(self) -> RunningGames:
        each = [one.running_games for one in self._running]
        return RunningGames(
            np.concatenate([NO_GAMES.lengths, *(one.lengths for one in each)]),
            np.concatenate([NO_GAMES.scores, *(one.scores for one in each)]),
        )

    def _unfinished(self) -> list[Episode]:
        slices = [*self._running, *self._waiting]
        own = [game for each in slices for game in each.games.values() if isinstance(game, Episode)]
        return own + list(self._begun)


@dataclass(frozen=True)
class RayCluster:
    """The tasks of a Ray cluster, for any player."""

    targets: Sequence[str]
    credentials: CredentialFiles

    def games(
        self,
        contender: Contender,
        seed: int,
        parallel: int,
        remark: Callable[[str], None],
        check: Callable[[], None],
    ) -> ClusterGames:
        """Play games of this contender in tasks."""
        if isinstance(contender, LocalContender):
            player = TaskPlayer(spec=contender.spec)
        else:
            player = TaskPlayer("", contender.model, contender.version.version, self.credentials)
        return ClusterGames(player, Conditions.of(contender, seed), parallel, self.targets, remark, check)
