"""Games in lockstep with local players: the games do not depend on how many run at once."""

import sys
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import BrokenAnswer, DeadlinePassed, NextMoves, OctofoldError, QueueFull, Unavailable
from octofold_client.evaluation.playing import PlayedBatch, play
from octofold_client.rpc.retry import RetryPolicy
from octofold_game.episodes import Episode
from octofold_game.referee import verify
from octofold_game.rules import legal_moves
from support.players import FirstLegal

Boards = NDArray[np.uint8]


first_legal = FirstLegal().next_moves


class Ready:
    """A local player with the interface of a server. It records its calls."""

    def __init__(self, choose: Callable[[Boards], NDArray[np.int8]] = first_legal) -> None:
        self.choose = choose
        self.in_flight = 0
        self.most_in_flight = 0
        self.batches: list[int] = []

    def __call__(self, boards: Boards) -> Any:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.batches.append(len(boards))
        moves = self.choose(boards)

        class Answer:
            def add_done_callback(answer, callback: Callable[[], None]) -> None:  # noqa: N805
                callback()

            def result(answer) -> NextMoves:  # noqa: N805 -- `self` is the player
                self.in_flight -= 1
                return NextMoves(moves, None, "m", "1", queue_us=2, inference_us=3)

        return Answer()


def games_of(
    player: Ready, games: Sequence[int], parallel: int, largest_exponent: int = 15
) -> dict[int, Episode]:
    return {
        episode.game: episode
        for step in play([player], 7, games, parallel, largest_exponent)
        for episode in step.finished
    }


def steps_of(servers: Sequence[Ready], games: int, parallel: int, **options: Any) -> list[PlayedBatch]:
    """Play games of seed 7 to their end."""
    return list(play(servers, 7, range(games), parallel, 15, **options))


def test_the_games_do_not_depend_on_how_many_run_at_once() -> None:
    expected = games_of(Ready(), range(5), 5)
    for parallel in (1, 2, 1000):
        played = games_of(Ready(), range(5), parallel)
        assert sorted(played) == list(range(5))
        for game, episode in expected.items():
            assert (played[game].moves, played[game].score) == (episode.moves, episode.score)
    for episode in expected.values():
        verify(episode)


def test_no_more_games_run_than_requested_and_two_batches_are_in_flight() -> None:
    player = Ready()
    steps = steps_of([player], 20, 5)
    assert max(step.running for step in steps) <= 5
    assert max(player.batches) == 3
    assert player.most_in_flight == 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda boards: np.full(len(boards), -1, np.int8),
        lambda boards: (~legal_moves(boards)).argmax(axis=1).astype(np.int8),
        lambda boards: np.full(len(boards), 9, np.int8),
    ],
)
def test_an_illegal_move_ends_the_evaluation_with_an_error(
    wrong: Callable[[Boards], NDArray[np.int8]],
) -> None:
    with pytest.raises(BrokenAnswer, match="cannot be played"):
        games_of(Ready(wrong), range(30), 30)


class Failing(Ready):
    """A server whose calls with these numbers fail with the exception that `error` makes."""

    def __init__(
        self, calls: Container[int], error: Callable[[], OctofoldError] = lambda: Unavailable("gone")
    ) -> None:
        super().__init__()
        self.calls = calls
        self.error = error

    def __call__(self, boards: Boards) -> Any:
        answer = super().__call__(boards)
        if len(self.batches) - 1 in self.calls:

            def fail() -> NextMoves:
                raise self.error()

            answer.result = fail
        return answer


def dying(calls: int) -> Failing:
    """Return a server that fails from call number `calls` on."""
    return Failing(range(calls, 10**9))


def full(seconds: float) -> QueueFull:
    return QueueFull("too many boards are waiting", seconds)


AT_ONCE = RetryPolicy(attempts=sys.maxsize, first_wait_seconds=0, silence=True)
"""A policy that retries a failed server without waiting."""


@pytest.mark.parametrize(("calls", "patience"), [(0, 3_600), (1, 3_600), (30, 0)])
def test_the_games_of_a_server_that_dies_continue_at_the_others(calls: int, patience: float) -> None:
    expected = games_of(Ready(), range(12), 12)
    dead, living = dying(calls), Ready()
    lost: list[int] = []
    steps = steps_of(
        [dead, living],
        12,
        6,
        on_lost=lambda server, _: lost.append(server),
        retry=RetryPolicy(first_wait_seconds=3_600, largest_wait_seconds=3_600),
        retry_timeout_seconds=patience,
    )
    played = {episode.game: episode for step in steps for episode in step.finished}
    assert {game: episode.moves for game, episode in played.items()} == {
        game: episode.moves for game, episode in expected.items()
    }
    assert lost == [0]
    assert calls < len(dead.batches) <= calls + 2
    # No move is made twice, so no played move was lost.
    assert sum(step.moves for step in steps) == sum(len(game) for game in played.values())


def test_the_failure_of_the_last_server_ends_the_evaluation() -> None:
    lost: list[OctofoldError] = []
    with pytest.raises(Unavailable, match="gone"):
        steps_of(
            [dying(3), dying(9)],
            12,
            6,
            on_lost=lambda _, error: lost.append(error),
            retry=AT_ONCE,
            retry_timeout_seconds=0,
        )
    assert len(lost) == 1


@pytest.mark.parametrize("error", [Unavailable, DeadlinePassed])
def test_an_evaluation_waits_for_a_server_that_restarts_or_falls_silent(
    error: type[OctofoldError],
) -> None:
    calls = 200  # far more failed calls than one call may be retried
    back = Failing(range(3, calls), lambda: error("gone"))
    steps = steps_of([back], 4, 4, retry=AT_ONCE, retry_timeout_seconds=3_600)
    assert sum(len(step.finished) for step in steps) == 4
    gone = dying(3)
    with pytest.raises(Unavailable):
        steps_of([gone], 4, 4, retry=RetryPolicy(first_wait_seconds=60), retry_timeout_seconds=0)
    assert len(gone.batches) <= 5


def test_a_server_that_comes_back_gets_games_again() -> None:
    back, other = Failing(range(5, 20)), Ready()
    lost: list[int] = []
    steps = steps_of([back, other], 12, 6, on_lost=lambda server, _: lost.append(server), retry=AT_ONCE)
    assert sum(len(step.finished) for step in steps) == 12
    assert len(back.batches) > 100
    assert lost == [0]


def test_a_server_whose_queue_stays_full_ends_the_evaluation() -> None:
    busy = Failing(range(10**9), lambda: full(0.0))
    with pytest.raises(QueueFull):
        steps_of([busy], 4, 4, retry=AT_ONCE, retry_timeout_seconds=0, queue_full_timeout_seconds=0)


def test_the_games_of_a_full_server_go_to_the_others() -> None:
    busy, other = Failing(range(3, 10**9), lambda: full(60.0)), Ready()
    steps = steps_of([busy, other], 12, 6)
    assert sum(len(step.finished) for step in steps) == 12
    assert len(busy.batches) <= 5


class Slow(Ready):
    """A server that answers each call only after its neighbour got five more calls, or has finished."""

    def __init__(self, neighbour: Ready) -> None:
        super().__init__()
        self.neighbour = neighbour
        self.held: list[tuple[int, Callable[[], None]]] = []

    def __call__(self, boards: Boards) -> Any:
        answer = super().__call__(boards)
        due = len(self.neighbour.batches) + 5
        answer.add_done_callback = lambda callback: self.held.append((due, callback))
        return answer

    def release(self, *, neighbour_is_done: bool = False) -> None:
        due = [entry for entry in self.held if neighbour_is_done or entry[0] <= len(self.neighbour.batches)]
        self.held = [entry for entry in self.held if entry not in due]
        for _, callback in due:
            callback()


def test_a_faster_server_gets_more_games() -> None:
    fast = Ready()
    slow = Slow(fast)
    steps = play(
        [slow, fast], 7, range(16), 8, 15, while_waiting=lambda: slow.release(neighbour_is_done=True)
    )
    games = 0
    for step in steps:
        games += len(step.finished)
        slow.release()
    assert games == 16
    assert sum(fast.batches) > 3 * sum(slow.batches) > 0
