"""A game does not depend on the games beside it, and it ends exactly when it is over."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from octofold_game.episodes import Episode, Episodes, IllegalMoveError
from octofold_game.player import Player
from octofold_game.rules import afterstates, legal_moves
from support.replays import fields_of

UP, RIGHT, DOWN, LEFT = range(4)
Play = Callable[..., list[Episode]]


def by_game(episodes: list[Episode]) -> list[tuple[Any, ...]]:
    return sorted(fields_of(episode) for episode in episodes)


def test_a_seed_gives_the_same_games_whatever_the_number_in_flight(play: Play) -> None:
    together = play(7, range(10))
    alone = [episode for game in range(10) for episode in play(7, [game])]
    backwards = play(7, range(9, -1, -1))
    assert by_game(together) == by_game(alone) == by_game(backwards)


def test_games_that_start_later_are_the_same(play: Play, player: Player) -> None:
    waiting = deque(range(12))
    episodes = Episodes(7)
    finished: list[Episode] = []
    while waiting or len(episodes.running):
        episodes.start([waiting.popleft() for _ in range(min(4 - len(episodes.running), len(waiting)))])
        assert len(episodes.running) <= 4
        finished += episodes.step(player.next_moves(episodes.boards))
    assert by_game(finished) == by_game(play(7, range(12)))


def test_the_score_is_the_sum_of_the_merges(player: Player) -> None:
    episodes = Episodes(3, range(10))
    scores = np.zeros(10, np.int64)
    while len(episodes.running):
        running = episodes.running.copy()
        moves = player.next_moves(episodes.boards)
        scores[running] += afterstates(episodes.boards)[1][np.arange(len(running)), moves]
        for episode in episodes.step(moves):
            assert episode.score == scores[episode.game]
        np.testing.assert_array_equal(episodes.scores, scores[episodes.running])


def test_running_games_stay_in_order_and_always_have_a_legal_move(player: Player) -> None:
    episodes = Episodes(4, [5, 3, 11, 8])
    while len(episodes.running):
        before = episodes.running.tolist()
        finished = [episode.game for episode in episodes.step(player.next_moves(episodes.boards))]
        assert episodes.running.tolist() == [game for game in before if game not in finished]
        assert episodes.boards.shape == (len(episodes.running), 16)
        assert legal_moves(episodes.boards).any(axis=1).all()


def test_a_game_that_outgrows_its_limit_ends_there_and_says_so(play: Play) -> None:
    for episode in play(7, range(20), largest_exponent=5):
        assert episode.outgrown == (episode.final_board.max() > 5)
        assert episode.largest_tile <= 64
    assert all(episode.outgrown for episode in play(7, range(20), largest_exponent=3))


@pytest.mark.parametrize("row", [0, 2])
def test_an_illegal_move_is_named_and_no_board_changes(row: int) -> None:
    episodes = Episodes(1, [40, 41, 42])
    for _ in range(100):
        legal = legal_moves(episodes.boards)
        if not legal[row].all():
            break
        episodes.step(legal.argmax(axis=1))
    before = episodes.boards.copy()
    moves = legal.argmax(axis=1)
    illegal = int(legal[row].argmin())
    moves[row] = illegal
    with pytest.raises(
        IllegalMoveError, match=rf"game {40 + row}, move number \d+: \w+ \({illegal}\)"
    ) as error:
        episodes.step(moves)
    assert error.value.game == 40 + row
    np.testing.assert_array_equal(episodes.boards, before)


@pytest.mark.parametrize("move", [-1, 4, 127])
def test_a_number_that_is_not_a_move_is_illegal(move: int) -> None:
    with pytest.raises(IllegalMoveError, match=f"game 6, move number 0: {move} is not legal"):
        Episodes(1, [6]).step(np.array([move], np.int8))


def test_moves_for_another_number_of_games_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"moves must have shape \[3\], one for each running game, got \[2\]"
    ):
        Episodes(1, range(3)).step([0, 1])


def test_resumed_games_continue_as_if_never_interrupted() -> None:
    whole, left = Episodes(5, range(6), 6), Episodes(5, range(6), 6)
    for episodes in (whole, left):
        for _ in range(20):
            episodes.step(episodes.legal.argmax(axis=1))
    resumed = Episodes(5, [6], 6)
    resumed.resume(left.unfinished())
    whole.start([6])
    ended: list[dict[int, tuple[bytes, bytes, int]]] = []
    for episodes in (whole, resumed):
        ended.append({})
        while len(episodes.running):
            for episode in episodes.step(episodes.legal.argmax(axis=1)):
                ended[-1][episode.game] = episode.start.tobytes(), episode.moves, episode.score
    assert sorted(ended[0]) == list(range(7))
    assert ended[0] == ended[1]


@pytest.mark.parametrize(("seed", "largest"), [(6, 15), (5, 14)])
def test_games_with_another_seed_or_limit_cannot_be_resumed(seed: int, largest: int) -> None:
    with pytest.raises(ValueError, match=f"game 3 has seed 5 and largest exponent 15, not {seed}"):
        Episodes(seed, (), largest).resume(Episodes(5, [3], 15).unfinished())


@pytest.mark.parametrize("largest", [1, 18])
def test_an_impossible_largest_exponent_is_refused(largest: int) -> None:
    with pytest.raises(ValueError, match=f"the largest exponent must be from 2 to 17, got {largest}"):
        Episodes(1, [0], largest)


def test_a_negative_game_index_is_refused() -> None:
    with pytest.raises(ValueError, match="game indices must not be negative, got -3"):
        Episodes(1, [0, -3])


def test_a_merge_of_two_131072s_outgrows_a_largest_exponent_of_17() -> None:
    episodes = Episodes(1, [0, 1])
    # No game of a test gets so far, so the board is written by hand.
    episodes.boards[0] = [17, 17] + [0] * 14
    episodes.start([])
    finished = episodes.step([LEFT, int(legal_moves(episodes.boards)[1].argmax())])
    assert [(episode.game, episode.outgrown, episode.largest_tile) for episode in finished] == [
        (0, True, 2**18)
    ]
    assert finished[0].score == 2**18
    assert episodes.running.tolist() == [1]
