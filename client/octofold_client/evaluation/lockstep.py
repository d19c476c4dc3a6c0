"""Many games at once against one server or several, a batch a step, so that neither side waits for the other.

The games are split into groups, two for each server. While a server answers one group, the moves of another
are made here and its next boards are sent, so that a batch always waits at every server. A group goes to
whichever server is free: the faster one answers more often, and one that dies leaves its groups, with their
games as they stand, to the others. A game's course depends only on its seed, its index and the player.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
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

    def result(self) -> NextMoves: ...

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """`callback` is called once the answer, or the first failure, is there; perhaps by another thread."""


Ask = Callable[[NDArray[np.uint8]], Answer]
"""Sends boards `[N, 16]` to one server and returns at once."""


@dataclass(frozen=True)
class Standing:
    """The games that have begun and not finished, in no order."""

    lengths: NDArray[np.int64]
    """`[R]`: moves made so far."""
    scores: NDArray[np.int64]
    """`[R]`"""


@dataclass(frozen=True)
class Step:
    """The result of one answered batch."""

    moves: int
    """Moves made: one for each board of the batch."""
    finished: list[Episode]
    running: int
    """Games now running, in all groups."""
    best_tile: int
    """The largest tile on this group's boards."""
    standing: Callable[[], Standing]
    """How the unfinished games stand; to be called before the next step, and only when it is needed."""
    queue_us: int
    inference_us: int


@dataclass(eq=False)
class _Server:
    ask: Ask
    number: int
    answered: int = 0
    """Boards so far: of two that are free, the one with more is the faster."""
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
    """Plays the games with these indices of `seed`, at most `parallel` (at least 1) at a time; an unfinished
    `Episode` goes on from where it stands.

    `while_waiting` is called every 0.2 s while no answer comes; `on_lost` with the index in `asks` of a
    server that failed, which is asked no more, as long as others are left; `on_left`, whatever ends the
    iterator, with the games that had begun and have not finished.

    Raises what `while_waiting` raises, the failure of the last server, and `BrokenAnswer` for a move that is
    not legal.
    """
    table = _Table(asks, seed, games, parallel, largest_exponent)
    try:
        table.send()
        while table.in_flight:
            server, group, answer = table.next_answer(while_waiting)
            try:
                # What a lost server still says is not waited for: another will be asked the same.
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
            table.send()  # before anything else: the server is to have work meanwhile
            yield table.step(group, answered, finished)
    finally:
        on_left(table.unfinished())


class _Table:
    """Where the games are: waiting, in a group that is ready, or with a server."""

    def __init__(
        self,
        asks: Sequence[Ask],
        seed: int,
        games: Sequence[int | Episode],
        parallel: int,
        largest_exponent: int,
    ) -> None:
        self._waiting = deque(games)
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
        """Fills the groups that are ready with games that wait, and sends them to free servers."""
        while self.ready and self.free:
            group = self.ready.popleft()
            room = group.places - len(group.episodes.running)
            if room and self._waiting:
                joining = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
                group.episodes.resume([game for game in joining if isinstance(game, Episode)])
                group.episodes.start([game for game in joining if not isinstance(game, Episode)])
            if len(group.episodes.running):
                server = max(self.free, key=lambda server: server.answered)
                self.free.remove(server)
                answer = server.ask(group.episodes.boards)
                self.in_flight += 1
                answer.add_done_callback(partial(self._answers.put, (server, group, answer)))

    def next_answer(self, while_waiting: Callable[[], None]) -> tuple[_Server, _Group, Answer]:
        """Waits for an answer, of whichever group."""
        while True:
            try:
                found = self._answers.get(timeout=SLICE_SECONDS)
            except Empty:
                while_waiting()
            else:
                self.in_flight -= 1
                return found

    def lose(self, server: _Server, error: OctofoldError) -> None:
        """Asks this server no more. Raises the error if it was the last one."""
        server.lost = True
        self.free = [other for other in self.free if other is not server]
        if all(other.lost for other in self._servers):
            raise error

    def step(self, group: _Group, answered: NextMoves, finished: list[Episode]) -> Step:
        """What people are told after an answer to `group`."""
        boards = group.episodes.boards
        return Step(
            moves=len(answered.moves),
            finished=finished,
            running=sum(len(group.episodes.running) for group in self._groups),
            best_tile=1 << int(boards.max()) if len(boards) else 0,
            standing=self._standing,
            queue_us=answered.queue_us,
            inference_us=answered.inference_us,
        )

    def unfinished(self) -> list[Episode]:
        """The games that have begun and not finished."""
        left = [episode for group in self._groups for episode in group.episodes.unfinished()]
        return left + self._begun()

    def _begun(self) -> list[Episode]:
        return [game for game in self._waiting if isinstance(game, Episode)]

    def _standing(self) -> Standing:
        begun = self._begun()
        lengths = [group.episodes.lengths for group in self._groups] + [list(map(len, begun))]
        scores = [group.episodes.scores for group in self._groups] + [[game.score for game in begun]]
        return Standing(np.concatenate(lengths).astype(np.int64), np.concatenate(scores).astype(np.int64))
