"""Plays many games at once against one or more servers, so that neither side waits for the other.

The games are split into groups, two for each server. While a server answers one group, the client makes the
moves of another and sends its next boards, so that each server always has a waiting batch. A group goes to
any free server, so a faster server answers more groups. If a server fails, the others continue its games, and
the client tries it again after some seconds. A game depends only on its seed, its index and the player.
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

SLICE_SECONDS = 0.2
PATIENCE_SECONDS = 10.0
"""Time for which an unavailable server, such as one that restarts, is asked again."""
FULL_SECONDS = 60.0
"""Minimum time for which full servers are asked again without an answer; a queue may be too small for a
group."""
_CALLS = 2
"""Number of groups that one server works on at a time."""


class PendingMoves(Protocol):
    """An answer that may still be on its way. It makes no retries, which would delay all other games."""

    def result(self) -> NextMoves:
        """Wait for the answer and return it, or raise the error of the call."""

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the answer or the first failure has arrived, perhaps in another thread."""


Ask = Callable[[NDArray[np.uint8]], PendingMoves]
"""Sends boards `[N, 16]` to one server and returns at once."""


class MoveSource(Protocol):
    """Supplies moves: a served model or a local player."""

    @property
    def target(self) -> str:
        """The server's address or the player's title, for messages."""

    def server_version(self) -> str | None:
        """Version of the server's program; None if unknown."""

    def ask(self, boards: NDArray[np.uint8], /) -> PendingMoves:
        """Begin to choose moves for boards `[N, 16]`, and return at once."""


@dataclass(frozen=True)
class RunningGames:
    """The games that have begun and not finished, in no particular order."""

    lengths: NDArray[np.int64]
    """`[R]`: moves made so far."""
    scores: NDArray[np.int64]
    """`[R]`: scores so far."""


NO_GAMES = RunningGames(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class PlayedBatch:
    """The result of one answered batch, or of several."""

    moves: int
    """Number of moves made, one for each board of the batch."""
    finished: list[Episode]
    running: int
    """Number of games now running, in all groups."""
    best_tile: int
    """The largest tile on this group's boards."""
    running_games: Callable[[], RunningGames]
    """Computes the state of the unfinished games; valid until the next step."""
    queue_us: int
    inference_us: int
    unfinished: Callable[[], list[Episode]] = list
    """Copies the games that have begun and not finished; valid until the next step."""
    requests: int = 1
    """Number of answered calls. It is above 1 if the step sums up several steps of another program."""


@dataclass(frozen=True)
class _Patience:
    ask_again: RetryPolicy
    seconds: float
    full_seconds: float


@dataclass(eq=False)
class _Server:
    ask: Ask
    number: int
    answered: int = 0
    """Number of boards answered so far. Of two free servers, the one with the larger number is faster."""
    in_flight: int = 0
    failures: int = 0
    """Number of failures in a row. After a failure, the server gets one group at a time until it answers."""
    failing_since: float = 0.0
    """Time of the first of these failures, by the monotonic clock."""
    asked_again: float = 0.0
    """Earliest time of the next attempt, by the monotonic clock."""
    lost: bool = False
    """Whether the server was given up."""

    def is_ready(self, now: float) -> bool:
        """Return whether the server may get a group, if it has room for one."""
        return now >= self.asked_again and not (self.failures and self.in_flight)


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
    on_left: Callable[[list[Episode]], None] = lambda _unfinished: None,
    ask_again: RetryPolicy = EVALUATION_RETRY,
    patience_seconds: float = PATIENCE_SECONDS,
    full_seconds: float = FULL_SECONDS,
) -> Generator[PlayedBatch, None, None]:
    """Play games and yield a step for each answered batch.

    Args:
        asks: sends boards to each server.
        seed: seed of the games.
        games: indices of new games, and unfinished games to continue.
        parallel: maximum number of games at a time, at least 1.
        largest_exponent: a game ends when it exceeds this exponent.
        while_waiting: called every 0.2 s while no answer comes; an exception from it ends the games.
        on_lost: called with the index of a server that begins to fail and its error, if other servers are
            left.
        on_left: called at the end, also after an error, with the games that have begun and not finished.
        ask_again: when to ask a full or unavailable server again. After its last attempt, the same pause is
            repeated.
        patience_seconds: how long to ask an unavailable server again. The games end when all servers have
            been unavailable for this long.
        full_seconds: how long to ask full servers again without an answer, if this is longer than
            `patience_seconds`.

    Raises:
        BrokenAnswer: a move is illegal.
        EvaluationError: another player than the selected one answers.
        OctofoldError: the last server failed, or all have been full for too long.
    """
    patience = _Patience(ask_again, patience_seconds, max(full_seconds, patience_seconds))
    table = _Table(asks, seed, games, parallel, largest_exponent, patience)
    try:
        while table.ready or table.in_flight:
            server, group, answer = table.next_answer(while_waiting)
            try:
                answered = answer.result()
            except (BrokenAnswer, EvaluationError):  # another server or attempt would fail, too
                raise
            except OctofoldError as error:
                table.make_ready(group)  # any server may get the same boards
                if table.back_off(server, error):
                    on_lost(server.number, error)
                continue
            table.count_answer(server, len(answered.moves))
            try:
                finished = group.episodes.step(answered.moves)
            except ValueError as error:
                raise BrokenAnswer(f"the moves cannot be played: {error}") from None
            table.make_ready(group)
            table.send()  # before everything else, so that the server has work
            yield table.step(group, answered, finished)
    finally:
        on_left(table.unfinished())


class _Table:
    """The state of all games: waiting, in a group that is ready to send, or at a server."""

    def __init__(
        self,
        asks: Sequence[Ask],
        seed: int,
        games: Sequence[int | Episode],
        parallel: int,
        largest_exponent: int,
        patience: _Patience,
    ) -> None:
        # Indices are read one by one, because a million of them may wait.
        self._unfinished = deque(game for game in games if isinstance(game, Episode))
        self._new = (game for game in games if not isinstance(game, Episode))
        self._servers = [_Server(ask, number) for number, ask in enumerate(asks)]
        self._patience = patience
        self._last_answer = time.monotonic()
        places, groups = min(parallel, len(games)), _CALLS * len(asks)
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
        """Number of groups that are at a server."""
        return sum(server.in_flight for server in self._servers)

    def make_ready(self, group: _Group) -> None:
        """Fill a group with waiting games; it is ready to send if it has any games."""
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
        """Send the ready groups to free servers."""
        now = time.monotonic()
        while self.ready:
            free = [
                server
                for server in self._servers
                if not server.lost and server.in_flight < _CALLS and server.is_ready(now)
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
                answer = self._answers.get(timeout=self._slice_seconds())
            except Empty:
                while_waiting()
            else:
                answer[0].in_flight -= 1
                return answer

    def count_answer(self, server: _Server, boards: int) -> None:
        """Count an answer."""
        server.answered += boards
        server.failures = 0
        self._last_answer = time.monotonic()

    def back_off(self, server: _Server, error: OctofoldError) -> bool:
        """Pause calls to a server after an error, or give the server up.

        Returns:
            Whether this is the first failure in a row and other servers are left.

        Raises:
            OctofoldError: this was the last server, or all servers have been full for too long.
        """
        now = time.monotonic()
        if server.lost or now < server.asked_again:  # the server's other group failed, too
            return False
        if isinstance(error, QueueFull):
            server.failures = 0
            waiting = self.in_flight > server.in_flight  # another server owes an answer
            if not waiting and now - self._last_answer > self._patience.full_seconds:
                raise error
        else:
            server.failures += 1
            if server.failures == 1:
                server.failing_since = now
        ask_again = self._patience.ask_again
        wait = ask_again.wait_seconds(error, min(max(1, server.failures), ask_again.attempts - 1))
        if wait is None:
            server.lost = True
        else:
            server.asked_again = now + wait
            over = server.failing_since + self._patience.seconds
            if server.failures and now < over:  # the server gets one more attempt when its time is over
                server.asked_again = min(server.asked_again, over)
        if all(each.lost or self._is_given_up(each, now) for each in self._servers):
            raise error
        others = any(not each.failures and not each.lost for each in self._servers)
        return server.failures == 1 and others

    def _is_given_up(self, server: _Server, now: float) -> bool:
        return server.failures > 0 and now - server.failing_since >= self._patience.seconds

    def step(self, group: _Group, answered: NextMoves, finished: list[Episode]) -> PlayedBatch:
        """Return the step for an answer to `group`."""
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

    def _slice_seconds(self) -> float:
        """Return how long to wait for an answer before other work may be due."""
        if not self.ready:
            return SLICE_SECONDS
        now = time.monotonic()
        due = min((each.asked_again for each in self._servers if each.asked_again > now), default=math.inf)
        return min(SLICE_SECONDS, due - now)

    def unfinished(self) -> list[Episode]:
        """Return the games that have begun and not finished."""
        left = [episode for group in self._groups for episode in group.episodes.unfinished()]
        return left + list(self._unfinished)

    def _running_games(self) -> RunningGames:
        begun = self._unfinished
        lengths = [group.episodes.lengths for group in self._groups] + [list(map(len, begun))]
        scores = [group.episodes.scores for group in self._groups] + [[game.score for game in begun]]
        return RunningGames(np.concatenate(lengths).astype(np.int64), np.concatenate(scores).astype(np.int64))
