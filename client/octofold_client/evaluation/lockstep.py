"""Many games at once against one server or several, a batch a step, so that neither side waits for the other.

The games are split into groups, two for each server. While a server answers one group, the moves of another
are made here and its next boards are sent, so that a batch always waits at every server. A group goes to
whichever server is free: the faster one answers more often, and one that dies leaves its groups, with their
games as they stand, to the others. A game's course depends on its seed and index and on the player alone. It
knows nothing about files.
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

    Raises what it is told by `while_waiting`, the failure of the last server, and `BrokenAnswer` for a move
    that is not legal.
    """
    waiting = deque(games)
    places = min(parallel, len(games))
    servers = [_Server(ask, number) for number, ask in enumerate(asks)]
    free = servers * 2
    ready = deque(
        _Group(Episodes(seed, (), largest_exponent), places // len(free) + (number < places % len(free)))
        for number in range(len(free))
    )
    groups = list(ready)
    answers: SimpleQueue[tuple[_Server, _Group, Answer]] = SimpleQueue()
    in_flight = 0

    def standing() -> Standing:
        begun = [game for game in waiting if isinstance(game, Episode)]
        lengths = [group.episodes.lengths for group in groups] + [[len(game) for game in begun]]
        scores = [group.episodes.scores for group in groups] + [[game.score for game in begun]]
        return Standing(np.concatenate(lengths).astype(np.int64), np.concatenate(scores).astype(np.int64))

    def send() -> None:
        """Fills the groups that are ready with games that wait and sends them to free servers."""
        nonlocal in_flight
        while ready and free:
            group = ready.popleft()
            room = group.places - len(group.episodes.running)
            if room and waiting:
                joining = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                group.episodes.resume([game for game in joining if isinstance(game, Episode)])
                group.episodes.start([game for game in joining if not isinstance(game, Episode)])
            if len(group.episodes.running):
                server = max(free, key=lambda server: server.answered)
                free.remove(server)
                answer = server.ask(group.episodes.boards)
                in_flight += 1
                answer.add_done_callback(partial(answers.put, (server, group, answer)))

    try:
        send()
        while in_flight:
            server, group, answer = _next(answers, while_waiting)
            in_flight -= 1
            try:
                # What a lost server still says is not waited for: another will be asked the same.
                answered = None if server.lost else answer.result()
            except BrokenAnswer:
                raise
            except OctofoldError as error:
                server.lost = True
                free = [other for other in free if other is not server]
                if all(other.lost for other in servers):
                    raise
                on_lost(server.number, error)
                answered = None
            ready.append(group)
            if answered is None:
                send()
                continue
            free.append(server)
            server.answered += len(answered.moves)
            try:
                finished = group.episodes.step(answered.moves)
            except ValueError as error:
                raise BrokenAnswer(f"the moves cannot be played: {error}") from None
            send()
            boards = group.episodes.boards
            yield Step(
                moves=len(answered.moves),
                finished=finished,
                running=sum(len(group.episodes.running) for group in groups),
                best_tile=1 << int(boards.max()) if len(boards) else 0,
                standing=standing,
                queue_us=answered.queue_us,
                inference_us=answered.inference_us,
            )
    finally:
        left = [episode for group in groups for episode in group.episodes.unfinished()]
        on_left(left + [game for game in waiting if isinstance(game, Episode)])


def _next(
    answers: SimpleQueue[tuple[_Server, _Group, Answer]], while_waiting: Callable[[], None]
) -> tuple[_Server, _Group, Answer]:
    while True:
        try:
            return answers.get(timeout=SLICE_SECONDS)
        except Empty:
            while_waiting()
