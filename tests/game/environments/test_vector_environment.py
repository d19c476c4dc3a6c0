"""The vector environment does, move for move, what gymnasium's does with single environments."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv
from octofold_game.environments.single import ENVIRONMENT_ID, Game2048Env
from octofold_game.environments.vector import Game2048VectorEnv

GAMES = 6
Envs = VectorEnv[Any, Any, Any]


def native(**options: Any) -> Envs:
    return gymnasium.make_vec(
        ENVIRONMENT_ID, num_envs=GAMES, vectorization_mode="vector_entry_point", **options
    )


def of_singles(mode: AutoresetMode, **options: Any) -> Envs:
    return gymnasium.make_vec(
        ENVIRONMENT_ID,
        num_envs=GAMES,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **options,
    )


def reset_both(envs: list[Envs], **how: Any) -> None:
    first, second = (env.reset(**copy.deepcopy(how)) for env in envs)  # gymnasium changes the options
    assert data_equivalence(first, second, exact=True), (first, second)


@pytest.mark.parametrize(
    ("mode", "one_hot"),
    [(AutoresetMode.NEXT_STEP, False), (AutoresetMode.SAME_STEP, True), (AutoresetMode.DISABLED, False)],
)
def test_every_step_is_that_of_single_environments_with_the_same_seeds(
    mode: AutoresetMode, one_hot: bool
) -> None:
    envs = [native(autoreset_mode=mode, one_hot=one_hot), of_singles(mode, one_hot=one_hot)]
    assert envs[0].metadata["autoreset_mode"] is mode
    assert envs[0].observation_space == envs[1].observation_space
    assert envs[0].action_space == envs[1].action_space
    random = np.random.default_rng(2)
    ended = np.zeros(GAMES, np.int64)
    reset_both(envs, seed=31)
    for step in range(300):
        actions = random.integers(4, size=GAMES)  # illegal ones, too
        first, second = (env.step(actions) for env in envs)
        assert data_equivalence(first, second, exact=True), (step, first, second)
        assert first[0] in envs[0].observation_space
        ended += first[2]
        if mode is AutoresetMode.DISABLED and first[2].any():
            reset_both(envs, options={"reset_mask": first[2]})
        if step == 200:
            reset_both(envs, seed=[2**64 - 1, 4, 4, 0, 9, 7])
    assert np.count_nonzero(ended) >= 3


def test_games_can_be_chosen_and_some_of_them_reset() -> None:
    envs = [native(), of_singles(AutoresetMode.NEXT_STEP)]
    reset_both(envs, seed=3, options={"game": 40})
    some = np.array([True, False, False, True, True, False])
    reset_both(envs, seed=8, options={"reset_mask": some})
    reset_both(envs)
    chosen, _ = envs[0].reset(seed=3, options={"game": [5, 6, 7, 8, 9, 10]})
    alone, _ = gymnasium.make(ENVIRONMENT_ID).reset(seed=5, options={"game": 7})
    assert chosen[2].tolist() == alone.tolist()


def test_what_a_caller_does_with_an_answer_does_not_change_the_games() -> None:
    envs = [native(), of_singles(AutoresetMode.NEXT_STEP)]
    reset_both(envs, seed=1)
    for _ in range(20):
        answer = envs[0].step(np.zeros(GAMES, np.int64))
        envs[1].step(np.zeros(GAMES, np.int64))
        for array in (*answer[:4], *answer[4].values()):
            array[...] = 1
    actions = np.array([0, 1, 2, 3, 0, 1])
    assert data_equivalence(envs[0].step(actions), envs[1].step(actions), exact=True)


def test_every_board_is_rendered() -> None:
    pictures, texts = native(render_mode="rgb_array"), native(render_mode="ansi")
    pictures.reset(seed=1), texts.reset(seed=1)
    single = gymnasium.make(ENVIRONMENT_ID, render_mode="rgb_array")
    single.reset(seed=5)
    frames = pictures.render()
    assert frames is not None
    assert len(frames) == GAMES
    assert (np.array(frames[4]) == np.array(single.render())).all()
    assert [str(text).count(".") for text in texts.render() or ()] == [14] * GAMES


def test_wrong_calls_of_the_vector_environment_are_refused_with_a_reason() -> None:
    envs = native(autoreset_mode="Disabled")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        envs.step(np.zeros(GAMES, np.int64))
    envs.reset(seed=1)
    for actions, reason in [([0] * 5, "6 integers, not int64 of shape"), ([0, 1, 4, 0, 0, 0], "4 of game 2")]:
        with pytest.raises(gymnasium.error.InvalidAction, match=reason):
            envs.step(np.array(actions))
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"seed": [1, 2]}, "2 seeds for 6 games"),
        ({"seed": 2**64 - 2}, "seed 18446744073709551616 is not in 0 to"),
        ({"seed": -1}, "seed -1 is not in 0 to"),
        ({"seed": 7, "options": {"game": -1}}, "game index -1 is negative"),
        ({"options": {"game": 2**63}}, r"game index is above 2\*\*63 - 1"),
        ({"options": {"reset_mask": np.ones(3, np.bool_)}}, r"reset_mask must be a numpy array \[6\]"),
    ]
    for wrong, reason in wrongs:
        with pytest.raises(ValueError, match=reason):
            envs.reset(**wrong)
    np.testing.assert_array_equal(envs.reset()[0], native().reset(seed=1, options={"game": 1})[0])
    with pytest.raises(ValueError, match="human"):
        native(render_mode="human")
    with pytest.raises(ValueError, match="num_envs is 0"):
        Game2048VectorEnv(0)
    _, info = envs.reset(seed=1)
    ended = np.zeros(GAMES, np.bool_)
    while not ended.any():
        _, _, ended, _, info = envs.step(info["action_mask"].argmax(axis=1))
    with pytest.raises(gymnasium.error.ResetNeeded, match="has ended"):
        envs.step(np.zeros(GAMES, np.int64))


LATE = [[11, 10, 9, 8], [4, 5, 6, 7], [3, 2, 1, 1], [0, 0, 0, 0]]


def test_rows_start_from_the_boards_that_are_given_and_then_play_the_next_game() -> None:
    envs = Game2048VectorEnv(3)
    single = Game2048Env()
    observations, _ = envs.reset(seed=5, options={"board": LATE})
    assert observations.tolist() == [LATE] * 3
    stepped = envs.step([1, 1, 1])[0]
    for row in range(3):
        single.reset(seed=5 + row, options={"board": LATE})
        assert stepped[row].tolist() == single.step(1)[0].tolist()
    boards = np.stack([np.roll(np.array(LATE), turn, axis=1) for turn in range(3)])
    started = np.array([True, False, True])
    observations, _ = envs.reset(options={"board": boards, "reset_mask": started})
    assert observations[0].tolist() == boards[0].tolist()
    assert observations[1].tolist() == stepped[1].tolist()
    assert observations[2].tolist() == boards[2].tolist()
    single.reset(seed=5, options={"game": 2})
    assert envs.reset()[0][0].tolist() == single.reset(options={"game": 2})[0].tolist()


@pytest.mark.parametrize(
    "options", [{"game": 3.7}, {"game": [1, 2.5, 3]}, {"game": -1}, {"board": [1, 2]}, {"board": [LATE] * 2}]
)
def test_a_wrong_start_is_refused_and_the_games_go_on(options: dict[str, object]) -> None:
    envs = Game2048VectorEnv(3)
    envs.reset(seed=5)
    before = envs.action_masks()
    with pytest.raises(ValueError, match=r"not a whole number|negative|a board must be"):
        envs.reset(options=options)
    assert envs.action_masks().tolist() == before.tolist()


def test_a_seed_may_be_an_integer_of_numpy() -> None:
    many, one = Game2048VectorEnv(2), Game2048Env()
    boards, _ = many.reset(seed=np.int64(5))  # type: ignore[arg-type]
    assert boards.tolist() == many.reset(seed=5)[0].tolist()
    assert boards[0].tolist() == one.reset(seed=np.int64(5))[0].tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_game_ends_when_two_of_the_largest_tiles_merge(one_hot: bool) -> None:
    board = np.zeros((4, 4), np.uint8)
    board[0, :2] = 17
    many, one = Game2048VectorEnv(2, one_hot=one_hot), Game2048Env(one_hot=one_hot)
    many.reset(seed=1, options={"board": board})
    one.reset(seed=1, options={"board": board})
    boards, rewards, terminated, *_, about = many.step([3, 1])
    seen, reward, ended, *_, info = one.step(3)
    assert (rewards.tolist(), bool(terminated.all()), about["largest_tile"].max()) == (
        [1 << 18] * 2,
        True,
        1 << 18,
    )
    assert (reward, ended, info["largest_tile"], info["action_mask"].any()) == (1 << 18, True, 1 << 18, False)
    assert boards in many.observation_space
    assert seen in one.observation_space
