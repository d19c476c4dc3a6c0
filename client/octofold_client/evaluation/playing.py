"""Plays many games at once with moves from one or more servers, so that neither client nor servers wait.

The games are split into groups, two for each server. While a server answers one group, the client makes the
moves of another and sends its next boards, so that each server always has a waiting batch. A group goes to
any free server, so a faster server answers more groups. If a server fails, the others continue its games, and
the client retries it after some seconds. The course of a game depends only on its seed, its index and the
player.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes

from octofold_client.errors import BrokenAnswer, EvaluationError, OctofoldError, QueueFull
from octofold_client.rpc.answers import NextMoves
from octofold_client.rpc.retry import EVALUATION_RETRY, RetryPolicy

POLL_SECONDS = 0.2
RETRY_TIMEOUT_SECONDS = 10.0
"""Default time for which unavailable servers are retried, for example while they restart."""
QUEUE_FULL_TIMEOUT_SECONDS = 60.0
"""Minimum time for which servers with full queues are retried. If no server answers during this time, the
queues may be too small for a group of games, and the evaluation ends."""
_GROUPS_IN_FLIGHT = 2
"""Maximum number of groups in flight to one server."""


class PendingMoves(Protocol):
    """The moves for a group of boards, which may not have arrived yet.

    `play` retries a failed call with the next free server. `result` must not retry, because that would delay
    all other games.
    """

    def result(self) -> NextMoves:
        """Wait for the moves and return them, or raise the error of the call."""

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the moves or the error have arrived, perhaps in another thread."""


Ask = Callable[[NDArray[np.uint8]], PendingMoves]
"""Sends boards `[N, 16]` to one server and returns without waiting for the moves."""


class MoveSource(Protocol):
    """A source of moves: a served model or a local player."""

    @property
    def target(self) -> str:
        """The server's address or the player's title, for messages."""

    def server_version(self) -> str | None:
        """Return the version of the server's program; None if unknown."""

    def ask(self, boards: NDArray[np.uint8], /) -> PendingMoves:
        """Request moves for boards `[N, 16]`, and return without waiting for them."""


@dataclass(frozen=True)
class RunningGames:
    """Lengths and scores of the games that have begun and not finished, in no particular order."""

    lengths: NDArray[np.int64]
    """`[R]`: moves made so far."""
    scores: NDArray[np.int64]
    """`[R]`: scores so far."""


NO_GAMES = RunningGames(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class PlayedBatch:
    """The result of an answered batch of boards, or the sum of several results."""

    moves: int
    """Number of moves made, one for each board of the batch."""
    finished: list[Episode]
    running: int
    """Number of games that are running, in all groups."""
    best_tile: int
    """The largest tile of the group's running games after the moves; 0 if none of its games is running."""
    running_games: Callable[[], RunningGames]
    """Returns lengths and scores of the unfinished games; may be called until the next batch."""
    queue_us: int
    inference_us: int
    unfinished: Callable[[], list[Episode]] = list
    """Returns copies of the games that have begun and not finished; may be called until the next batch."""
    requests: int = 1
    """Number of answered calls; above 1 in the sum of several batches."""


@dataclass(frozen=True)
class _RetryLimits:
    retry: RetryPolicy
    timeout_seconds: float
    queue_full_timeout_seconds: float


@dataclass(eq=False)
class _Server:
    ask: Ask
    number: int
    answered: int = 0
    """Number of boards answered so far. Of the free servers, the one with the largest number gets the next
    group, because it is the fastest."""
    in_flight: int = 0
    failures: int = 0
    """Number of failures in a row. After a failure, the server gets one group at a time until it answers."""
    failing_since: float = 0.0
    """Time of the first of the `failures`, by the monotonic clock."""
    retry_at: float = 0.0
    """Earliest time of the next attempt, by the monotonic clock."""
    lost: bool = False
    """Whether the server is not called again, because a retry cannot succeed."""

    def is_ready(self, now: float) -> bool:
        """Return whether earlier failures of this server allow a call at the time `now`."""
        return now >= self.retry_at and not (self.failures and self.in_flight)


@dataclass(eq=False)
class _Group:
    episodes: Episodes
    places: int


def play(
    asks: Sequence[Ask],
    seed: int,
    games: Sequence[int | Episode],
    parallel: int,
    largest_exponent: int,
    while_waiting: Callable[[], None] = lambda: None,
    on_lost: Callable[[int, OctofoldError], None] = lambda _server, _error: None,
    on_unfinished: Callable[[list[Episode]], None] = lambda _unfinished: None,
    retry: RetryPolicy = EVALUATION_RETRY,
    retry_timeout_seconds: float = RETRY_TIMEOUT_SECONDS,
    queue_full_timeout_seconds: float = QUEUE_FULL_TIMEOUT_SECONDS,
) -> Generator[PlayedBatch, None, None]:
    """Play games and yield the result of each answered batch.

    Args:
        asks: functions that send boards, one for each server.
        seed: seed of the games.
        games: indices of new games, and unfinished games to continue.
        parallel: maximum number of games at a time, at least 1.
        largest_exponent: a game ends when a tile exceeds 2 to this exponent.
        while_waiting: called every 0.2 s while no answer comes; an exception from it ends the games.
        on_lost: called when a server begins to fail while others still work, with its index and its error.
        on_unfinished: called at the end, even after an error, with games that have begun and not ended.
        retry: the retry policy for servers that are unavailable or have full queues.
        retry_timeout_seconds: timeout for retries to an unavailable server. The games end when all servers
            have been unavailable for this long.
        queue_full_timeout_seconds: the games end when full queues have kept all servers from answering for
            this long, or for `retry_timeout_seconds` if that is longer.

    Raises:
        BrokenAnswer: a move is illegal, or an answer does not match its boards.
        EvaluationError: a server answers with another player than the selected one.
        OctofoldError: the last server failed, or the queues of all servers have been full for too long.
    """
    queue_full_timeout = max(queue_full_timeout_seconds, retry_timeout_seconds)
    retry_limits = _RetryLimits(retry, retry_timeout_seconds, queue_full_timeout)
    schedule = _FailoverSchedule(asks, seed, games, parallel, largest_exponent, retry_limits)
    try:
        while schedule.ready or schedule.in_flight:
            server, group, answer = schedule.next_answer(while_waiting)
            try:
                answered = answer.result()
            except (BrokenAnswer, EvaluationError):  # another server or attempt would fail, too
                raise
            except OctofoldError as error:
                schedule.make_ready(group)  # any server can take over the group
                if schedule.pause_or_give_up(server, error):
                    on_lost(server.number, error)
                continue
            schedule.count_answer(server, len(answered.moves))
            try:
                finished = group.episodes.step(answered.moves)
            except ValueError as error:
                raise BrokenAnswer(f"the moves cannot be played: {error}") from None
            schedule.make_ready(group)
            schedule.send()  # send first, so that the server has work
            yield schedule.result_of(group, answered, finished)
    finally:
        on_unfinished(schedule.unfinished())


class _FailoverSchedule:
    """Which server gets which games, and which servers are paused or given up after errors."""

    def __init__(
        self,
        asks: Sequence[Ask],
        seed: int,
        games: Sequence[int | Episode],
        parallel: int,
        largest_exponent: int,
        retry_limits: _RetryLimits,
    ) -> None:
        # Indices are read lazily, because millions of new games may wait.
        self._unfinished = deque(game for game in games if isinstance(game, Episode))
        self._new = (game for game in games if not isinstance(game, Episode))
        self._servers = [_Server(ask, number) for number, ask in enumerate(asks)]
        self._retry_limits = retry_limits
        self._last_answer = time.monotonic()
        places, groups = min(parallel, len(games)), _GROUPS_IN_FLIGHT * len(asks)
        self._groups = [
            _Group(Episodes(seed, (), largest_exponent), places // groups + (number < places % groups))
            for number in range(groups)
        ]
        self.ready = deque[_Group]()
        for group in self._groups:
            self.make_ready(group)
        self._answers: SimpleQueue[tuple[_Server, _Group, PendingMoves]] = SimpleQueue()

    @property
    def in_flight(self) -> int:
        """Number of groups that wait for an answer of a server."""
        return sum(server.in_flight for server in self._servers)

    def make_ready(self, group: _Group) -> None:
        """Fill a group with waiting games, and queue it for sending if it has any games."""
        room = group.places - len(group.episodes.running)
        if room:
            begun = [self._unfinished.popleft() for _ in range(min(room, len(self._unfinished)))]
            if begun:
                group.episodes.resume(begun)
            if new := list(islice(self._new, room - len(begun))):
                group.episodes.start(new)
        if len(group.episodes.running):
            self.ready.append(group)

    def send(self) -> None:
        """Send ready groups to servers until no group is ready or no server is free."""
        now = time.monotonic()
        while self.ready:
            free = [
                server
                for server in self._servers
                if not server.lost and server.in_flight < _GROUPS_IN_FLIGHT and server.is_ready(now)
            ]
            if not free:
                return
            server, group = max(free, key=lambda server: server.answered), self.ready.popleft()
            answer = server.ask(group.episodes.boards)
            server.in_flight += 1
            answer.add_done_callback(partial(self._answers.put, (server, group, answer)))

    def next_answer(self, while_waiting: Callable[[], None]) -> tuple[_Server, _Group, PendingMoves]:
        """Wait for the answer to any group, and retry failed servers in the meantime."""
        while True:
            self.send()
            try:
                answer = self._answers.get(timeout=self._wait_seconds())
            except Empty:
                while_waiting()
            else:
                answer[0].in_flight -= 1
                return answer

    def count_answer(self, server: _Server, boards: int) -> None:
        """Record that a server answered this number of boards, so that it no longer counts as failing."""
        server.answered += boards
        server.failures = 0
        self._last_answer = time.monotonic()

    def pause_or_give_up(self, server: _Server, error: OctofoldError) -> bool:
        """Pause calls to a server after an error, or give the server up.

        Returns:
            Whether this is the first failure in a row while other servers still work.

        Raises:
            OctofoldError: this was the last server, or the queues of all servers have been full for too long.
        """
        now = time.monotonic()
        if server.lost or now < server.retry_at:  # already counted, for another group of this server
            return False
        if isinstance(error, QueueFull):
            server.failures = 0
            waiting = self.in_flight > server.in_flight  # another server may still answer
            if not waiting and now - self._last_answer > self._retry_limits.queue_full_timeout_seconds:
                raise error
        else:
            server.failures += 1
            if server.failures == 1:
                server.failing_since = now
        wait = self._retry_limits.retry.wait_seconds(error, max(1, server.failures))
        if wait is None:
            server.lost = True
        else:
            server.retry_at = now + wait
            over = server.failing_since + self._retry_limits.timeout_seconds
            if server.failures and now < over:  # the last attempt is at the timeout
                server.retry_at = min(server.retry_at, over)
        if all(each.lost or self._is_given_up(each, now) for each in self._servers):
            raise error
        others = any(not each.failures and not each.lost for each in self._servers)
        return server.failures == 1 and others

    def _is_given_up(self, server: _Server, now: float) -> bool:
        return server.failures > 0 and now - server.failing_since >= self._retry_limits.timeout_seconds

    def result_of(self, group: _Group, answered: NextMoves, finished: list[Episode]) -> PlayedBatch:
        """Return the `PlayedBatch` of an answer to `group`."""
        boards = group.episodes.boards
        return PlayedBatch(
            moves=len(answered.moves),
            finished=finished,
            running=sum(len(group.episodes.running) for group in self._groups),
            best_tile=1 << int(boards.max()) if len(boards) else 0,
            running_games=self._running_games,
            queue_us=answered.queue_us,
            inference_us=answered.inference_us,
            unfinished=self.unfinished,
        )

    def _wait_seconds(self) -> float:
        """Return the time in seconds to wait for an answer before `while_waiting` or a retry is due."""
        if not self.ready:
            return POLL_SECONDS
        now = time.monotonic()
        due = min((each.retry_at for each in self._servers if each.retry_at > now), default=math.inf)
        return min(POLL_SECONDS, due - now)

    def unfinished(self) -> list[Episode]:
        """Return the games that have begun and not finished."""
        left = [episode for group in self._groups for episode in group.episodes.unfinished()]
        return left + list(self._unfinished)

    def _running_games(self) -> RunningGames:
        begun = self._unfinished
        lengths = [group.episodes.lengths for group in self._groups] + [list(map(len, begun))]
        scores = [group.episodes.scores for group in self._groups] + [[game.score for game in begun]]
        return RunningGames(np.concatenate(lengths).astype(np.int64), np.concatenate(scores).astype(np.int64))
