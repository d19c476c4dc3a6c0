"""The gymnasium environment passes gymnasium's own checker and plays the games of `Episodes`."""

import re
import subprocess
import sys
from collections.abc import Iterator

import gymnasium
import numpy as np
import pygame
import pytest
from gymnasium.utils.env_checker import check_env
from octofold_game.drawing.palette import EMPTY, color_of
from octofold_game.environments.single import ENVIRONMENT_ID, Game2048Env
from octofold_game.episodes import Episode, Episodes
from octofold_game.referee import verify


@pytest.fixture(autouse=True, scope="module")
def _without_a_screen() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SDL_VIDEODRIVER", "dummy")
        yield


@pytest.mark.parametrize("one_hot", [False, True])
def test_the_environment_passes_the_checks_of_gymnasium(one_hot: bool) -> None:
    check_env(gymnasium.make(ENVIRONMENT_ID, one_hot=one_hot, render_mode="rgb_array").unwrapped)


def test_the_environment_can_be_made_by_name_without_an_import() -> None:
    code = (
        "import gymnasium; name = 'octofold_game.environments.single:octofold/2048-v0';"
        "env = gymnasium.make(name);"
        "envs = gymnasium.make_vec(name, num_envs=3);"
        "print(env.reset(seed=1)[0].shape, envs.reset(seed=1)[0].shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(4, 4) (3, 4, 4)\n"


def first_legal_game(seed: int, game: int) -> Episode:
    episodes = Episodes(seed, [game])
    while True:
        if finished := episodes.step(episodes.legal.argmax(axis=1)):
            return finished[0]


def test_a_seed_gives_the_games_of_episodes_in_order() -> None:
    env = Game2048Env()
    for game in range(3):
        observation, info = env.reset(seed=11) if game == 0 else env.reset()
        expected = first_legal_game(11, game)
        verify(expected)
        assert observation.ravel().tolist() == expected.start.tolist()
        rewards, terminated = 0.0, False
        while not terminated:
            observation, reward, terminated, truncated, info = env.step(int(np.argmax(info["action_mask"])))
            rewards += reward
            assert not truncated
        assert observation.ravel().tolist() == expected.final_board.tolist()
        assert (rewards, info["score"]) == (expected.score, expected.score)
        assert info["largest_tile"] == expected.largest_tile
        assert not info["action_mask"].any()


LATE = [[11, 10, 9, 8], [4, 5, 6, 7], [3, 2, 1, 1], [0, 0, 0, 0]]


def test_a_game_can_start_from_a_given_board() -> None:
    env = Game2048Env()
    for board in (LATE, np.array(LATE).ravel()):
        observation, info = env.reset(seed=11, options={"board": board})
        assert observation.tolist() == LATE
        assert (info["score"], info["largest_tile"]) == (0, 2048)
    observation, reward, *_ = env.step(1)
    assert reward == 4
    # The new tile is that of the first move of the game.
    first = first_legal_game(11, 0).moves[0]
    assert observation.max() == 11
    assert np.count_nonzero(observation) == 12
    assert (observation == 2 if first & 64 else observation == 1).sum() >= 1
    assert env.reset()[0].ravel().tolist() == first_legal_game(11, 1).start.tolist()
    env.reset(options={"game": 5})
    assert env.reset()[0].ravel().tolist() == first_legal_game(11, 6).start.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"board": [1, 2, 3]}, r"integers of shape \[4, 4\] or \[16\], got int64 of shape \[3\]"),
        ({"board": np.zeros((4, 4))}, "got float64 of shape"),
        ({"board": [[2048, 0, 0, 0]] * 4}, "exponents from 0 to 17, such as 11 for 2048, got 2048"),
        ({"board": np.arange(1, 17)}, "must have a legal move"),
        ({"game": 3.7}, "must be a whole number"),
        ({"game": [1, 2]}, "must be a whole number"),
        ({"game": -1}, "must not be negative"),
        ({"game": 2**63}, r"at most 2\*\*63 - 1"),
    ],
)
def test_a_wrong_start_is_refused_and_the_game_continues(options: dict[str, object], message: str) -> None:
    env = Game2048Env(render_mode="ansi")
    env.reset(seed=11)
    before = env.render()
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)
    assert env.render() == before


def test_an_illegal_action_changes_nothing_and_has_reward_0() -> None:
    env = Game2048Env()
    observation, info = env.reset(seed=3)
    while info["action_mask"].all():
        observation, *_, info = env.step(env.action_space.sample(info["action_mask"]))
    illegal = int(np.argmin(info["action_mask"]))
    after, reward, terminated, truncated, info = env.step(illegal)
    assert after.tolist() == observation.tolist()
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.action_masks().tolist() == info["action_mask"].astype(bool).tolist()


def test_the_one_hot_observation_and_the_text_show_the_same_board() -> None:
    plain, one_hot = Game2048Env(render_mode="ansi"), Game2048Env(one_hot=True)
    board, _ = plain.reset(seed=4)
    channels, _ = one_hot.reset(seed=4)
    assert (channels.argmax(axis=2) == board).all()
    assert (channels.sum(axis=2) == 1).all()
    assert len(re.findall(r"\b[24]\b", plain.render())) == 2


def test_a_picture_of_a_board_has_the_colors_of_its_tiles() -> None:
    env = Game2048Env(render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    picture = env.render()
    assert picture.shape == (*picture.shape[:2], 3)
    assert picture.dtype == np.uint8
    size = len(picture) // 4
    for row, column in np.ndindex(4, 4):
        exponent = int(observation[row, column])
        expected = color_of(exponent).background if exponent else EMPTY
        # just below the upper edge of the cell, where no digit is drawn
        found = picture[row * size + size // 5, column * size + size // 2]
        assert "#" + found.tobytes().hex() == expected


def test_a_window_shows_each_board_and_closes() -> None:
    env, twin = Game2048Env(render_mode="human"), Game2048Env(render_mode="rgb_array")
    for each in (env, twin):
        each.reset(seed=1)
        each.step(int(each.action_masks().argmax()))
    surface = pygame.display.get_surface()
    assert surface is not None
    shown = pygame.surfarray.array3d(surface).swapaxes(0, 1)
    assert (shown == twin.render()).all()
    env.close()
    assert pygame.display.get_surface() is None
    env.close()


@pytest.mark.parametrize(
    ("missing", "mode", "message"),
    [
        ("pygame", "human", "a window needs pygame-ce: run "),
        ("PIL", "rgb_array", "pictures of boards need Pillow: run "),
    ],
)
def test_a_missing_package_for_pictures_is_named_with_its_command(
    missing: str, mode: str, message: str
) -> None:
    code = (
        f"import sys; sys.modules['{missing}'] = None;"
        "from octofold_game.environments.single import Game2048Env;"
        f"env = Game2048Env(render_mode='{mode}'); env.reset(seed=1); env.render()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"gymnasium.error.DependencyNotInstalled: {message}")
    assert "gymnasium" in last.partition("run ")[2]


def test_wrong_calls_of_the_environment_are_refused_with_a_reason() -> None:
    env = Game2048Env()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    with pytest.raises(gymnasium.error.InvalidAction, match="4"):
        env.step(4)
    for action in (1.0, "up", None, np.array([1, 2])):
        with pytest.raises(gymnasium.error.InvalidAction, match="must be a whole number"):
            env.step(action)  # type: ignore[arg-type]
    assert env.step(np.array(1))[1] >= 0  # type: ignore[arg-type]  # as agents give it
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="seed must be from 0 to"):
            env.reset(seed=seed)
    with pytest.raises(
        ValueError, match="unknown render mode 'video'; allowed are None, ansi, rgb_array, human"
    ):
        Game2048Env(render_mode="video")
