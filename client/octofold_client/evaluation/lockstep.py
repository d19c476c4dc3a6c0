"""Plays many games at once against one or more servers, so that neither side waits for the other.

The games are split into groups, two for each server. While a server answers one group, the client makes the
moves of another and sends its next boards, so that a batch always waits at each server. A group goes to any
free server, so a faster server answers more groups. If a server fails, the others continue its games. A game
depends only on its seed, its index and the player.
"""

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

from octofold_client.errors import BrokenAnswer, OctofoldError
from octofold_client.rpc.answers import NextMoves

SLICE_SECONDS = 0.2


class Answer(Protocol):
    """An answer that may still be on its way."""

    def result(self) -> NextMoves:
        """Wait for the answer and return it, or raise the error of the call."""

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the answer or the first failure has arrived, perhaps in another thread."""


Ask = Callable[[NDArray[np.uint8]], Answer]
"""Sends boards `[N, 16]` to one server and returns at once."""


@dataclass(frozen=True)
class Standing:
    """The games that have begun and not finished, in no particular order."""

    lengths: NDArray[np.int64]
    """`[R]`: moves made so far."""
    scores: NDArray[np.int64]
    """`[R]`: scores so far."""


@dataclass(frozen=True)
class Step:
    """The result of one answered batch, or of several."""

    moves: int
    """Moves made, one for each board of the batch."""
    finished: list[Episode]
    running: int
    """Games now running, in all groups."""
    best_tile: int
    """The largest tile on this group's boards."""
    standing: Callable[[], Standing]
    """Computes the state of the unfinished games; valid until the next step."""
    queue_us: int
    inference_us: int
    unfinished: Callable[[], list[Episode]] = list
    """Copies the games that have begun and not finished; valid until the next step."""
    requests: int = 1
    """Answered calls; several if the step sums up the steps of another program."""


@dataclass(eq=False)
class _Server:
    ask: Ask
    number: int
    answered: int = 0
    """Boards answered so far; of two free servers, the one with more is faster."""
    lost: bool = False


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
) -> Generator[Step, None, None]:
    """Play games and yield a step for each answered batch.

    Args:
        asks: sends boards to each server.
        seed: seed of the games.
        games: indices of new games, and unfinished games to continue.
        parallel: maximum number of games at a time, at least 1.
        largest_exponent: a game ends when it exceeds this exponent.
        while_waiting: called every 0.2 s while no answer comes; an exception from it ends the games.
        on_lost: called with the index of a server that failed and its error, if other servers are left.
        on_left: called at the end, whatever its cause, with the games that have begun and not finished.

    Raises:
        BrokenAnswer: a move is illegal.
        OctofoldError: the last server failed.
    """
    table = _Table(asks, seed, games, parallel, largest_exponent)
    try:
        table.send()
        while table.in_flight:
            server, group, answer = table.next_answer(while_waiting)
            try:
                # Do not wait for a lost server; another server will get the same boards.
                answered = None if server.lost else answer.result()
            except BrokenAnswer:
                raise
            except OctofoldError as error:
                table.lose(server, error)
                on_lost(server.number, error)
                answered = None
            table.ready.append(group)
            if answered is None:
                table.send()
                continue
            table.free.append(server)
            server.answered += len(answered.moves)
            try:
                finished = group.episodes.step(answered.moves)
            except ValueError as error:
                raise BrokenAnswer(f"the moves cannot be played: {error}") from None
            table.send()  # first of all, so that the server has work
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
    ) -> None:
        # Indices are taken one by one: a million of them may wait.
        self._unfinished = deque(game for game in games if isinstance(game, Episode))
        self._new = (game for game in games if not isinstance(game, Episode))
        self._servers = [_Server(ask, number) for number, ask in enumerate(asks)]
        self.free = self._servers * 2
        places, groups = min(parallel, len(games)), len(self.free)
        self._groups = [
            _Group(Episodes(seed, (), largest_exponent), places // groups + (number < places % groups))
            for number in range(groups)
        ]
        self.ready = deque(self._groups)
        self.in_flight = 0
        self._answers: SimpleQueue[tuple[_Server, _Group, Answer]] = SimpleQueue()

    def send(self) -> None:
        """Fill the ready groups with waiting games, and send them to free servers."""
        while self.ready and self.free:
            group = self.ready.popleft()
            room = group.places - len(group.episodes.running)
            if room:
                begun = [self._unfinished.popleft() for _ in range(min(room, len(self._unfinished)))]
                group.episodes.resume(begun)
                if new := list(islice(self._new, room - len(begun))):
                    group.episodes.start(new)
            if len(group.episodes.running):
                server = max(self.free, key=lambda server: server.answered)
                self.free.remove(server)
                answer = server.ask(group.episodes.boards)
                self.in_flight += 1
                answer.add_done_callback(partial(self._answers.put, (server, group, answer)))

    def next_answer(self, while_waiting: Callable[[], None]) -> tuple[_Server, _Group, Answer]:
        """Wait for the answer to any group."""
        while True:
            try:
                found = self._answers.get(timeout=SLICE_SECONDS)
            except Empty:
                while_waiting()
            else:
                self.in_flight -= 1
                return found

    def lose(self, server: _Server, error: OctofoldError) -> None:
        """Stop using this server, and raise the error if it was the last one."""
        server.lost = True
        self.free = [other for other in self.free if other is not server]
        if all(other.lost for other in self._servers):
            raise error

    def step(self, group: _Group, answered: NextMoves, finished: list[Episode]) -> Step:
        """The step for an answer to `group`."""
        boards = group.episodes.boards
        return Step(
            moves=len(answered.moves),
            finished=finished,
            running=sum(len(group.episodes.running) for group in self._groups),
            best_tile=1 << int(boards.max()) if len(boards) else 0,
            standing=self._standing,
            queue_us=answered.queue_us,
            inference_us=answered.inference_us,
            unfinished=self.unfinished,
        )

    def unfinished(self) -> list[Episode]:
        """The games that have begun and not finished."""
        left = [episode for group in self._groups for episode in group.episodes.unfinished()]
        return left + list(self._unfinished)

    def _standing(self) -> Standing:
        begun = self._unfinished
        lengths = [group.episodes.lengths for group in self._groups] + [list(map(len, begun))]
        scores = [group.episodes.scores for group in self._groups] + [[game.score for game in begun]]
        return Standing(np.concatenate(lengths).astype(np.int64), np.concatenate(scores).astype(np.int64))
