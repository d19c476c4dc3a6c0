"""Many games at once against one server, a batch a step, so that neither side ever waits for the other.

The games are split into two half-groups. While the server answers one half, the moves of the other are made
here and its next boards are sent, so that a batch always waits at the server. A game's course depends on its
seed and index and on the player alone, not on how many games run beside it. It knows nothing about files.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episode, Episodes

from octofold_client.answers import NextMoves
from octofold_client.errors import BrokenAnswer


class Answer(Protocol):
    """An answer that may still be on its way."""

    def result(self) -> NextMoves: ...


Ask = Callable[[NDArray[np.uint8]], Answer]
"""Sends boards `[N, 16]` and returns at once."""


@dataclass(frozen=True)
class Step:
    """What one answered batch brought about."""

    moves: int
    """Moves made: one for each board of the batch."""
    finished: list[Episode]
    running: int
    """Games now running, in both halves."""
    best_tile: int
    """The largest tile on this half's boards."""
    queue_us: int
    inference_us: int


def play(ask: Ask, seed: int, games: Sequence[int], parallel: int, largest_exponent: int) -> Iterator[Step]:
    """Plays the games with these indices of `seed`, at most `parallel` (at least 1) at a time.

    Raises what `ask` and its answers raise, and `BrokenAnswer` for a move that is not legal. Games that are
    still running when the iterator is left are lost.
    """
    waiting = deque(games)
    places = min(parallel, len(games))
    in_flight: deque[tuple[Episodes, int, Answer]] = deque()

    def fill_and_send(half: Episodes, size: int) -> None:
        free = size - len(half.running)
        if free and waiting:
            half.start([waiting.popleft() for _ in range(min(free, len(waiting)))])
        if len(half.running):
            in_flight.append((half, size, ask(half.boards)))

    halves = Episodes(seed, (), largest_exponent), Episodes(seed, (), largest_exponent)
    for half, size in zip(halves, ((places + 1) // 2, places // 2), strict=True):
        fill_and_send(half, size)
    while in_flight:
        half, size, answer = in_flight.popleft()
        answered = answer.result()
        try:
            finished = half.step(answered.moves)
        except ValueError as error:
            raise BrokenAnswer(f"the server's moves cannot be played: {error}") from None
        fill_and_send(half, size)
        yield Step(
            moves=len(answered.moves),
            finished=finished,
            running=sum(len(half.running) for half in halves),
            best_tile=1 << int(half.boards.max()) if len(half.boards) else 0,
            queue_us=answered.queue_us,
            inference_us=answered.inference_us,
        )
