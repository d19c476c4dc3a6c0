"""2048 as a gymnasium environment, for any library whose agents use gymnasium's interface.

It needs gymnasium (install `octofold[gymnasium]`), and nothing else here imports it. `Episodes` plays the
games, so the same seed spawns the same tiles here and there. `vector_environment.py` plays many at once.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from octofold_game.board_text import board_text
from octofold_game.episodes import Episodes
from octofold_game.rendering import FRAMES_PER_SECOND, Window, check_mode, pixels_of
from octofold_game.rules import LARGEST_EXPONENT

ENVIRONMENT_ID = "octofold/2048-v0"
"""For `gymnasium.make("octofold_game.environment:octofold/2048-v0")`, which also imports this module."""
OLD_ID = "octofold/Game2048-v0"
"""The same environment, by the name that version 0.1 gave it."""


class Game2048Env(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """Plays one game of 2048 after another.

    The conventions follow the published environments (`gymnasium-2048` and jumanji's `Game2048`):

    observation
        The board, `[4, 4] uint8`: exponents 0 to 17, where 0 is an empty cell and 11 is tile 2048. With
        `one_hot`, `[4, 4, 18] uint8`: channel `e` is 1 where the exponent is `e`.
    action
        0 up, 1 right, 2 down, 3 left.
    reward
        The sum of the tiles that the move merged. The rewards of a game add up to its score.
    illegal action
        An action that does not change the board is illegal. It spawns no tile, its reward is 0, and the game
        continues. `info["action_mask"]` `[4] int8` is 1 for each legal action, the form that
        `action_space.sample(mask)` takes. `action_masks()` returns the same as `bool`, the form that maskable
        agents take.
    end
        `terminated` is True when no action is legal. `truncated` is always False. `info` also has `score` and
        `largest_tile`.
    seed
        `reset(seed=s)` starts game 0 of `Episodes(s, ...)`. Each later `reset()` starts the next game of that
        seed, and `options={"game": n}` starts game n. The games are those of an evaluation with the same seed
        and can be compared with them move by move. `s` is 0 to 2**64 - 1; without `s`, the seed is random.
    rendering
        `render_mode="ansi"` gives text and "rgb_array" pixels; "human" shows each board in a window.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 -- gymnasium's own type
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(self, *, one_hot: bool = False, render_mode: str | None = None) -> None:
        """Set up the spaces; `reset` starts the first game.

        Args:
            one_hot: whether observations are one-hot planes instead of exponents.
            render_mode: None, "ansi", "rgb_array" (needs Pillow) or "human" (also needs pygame).

        Raises:
            ValueError: another render mode.
            DependencyNotInstalled: "human" without pygame.
        """
        check_mode(render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self._window = Window("2048") if render_mode == "human" else None
        self.action_space = gymnasium.spaces.Discrete(4)
        self.observation_space = observation_space(one_hot)
        self._one_hot = one_hot
        self._seed: int | None = None
        self._next_game = 0
        self._episodes: Episodes | None = None  # None while no game is running
        self._board = np.zeros(16, np.uint8)
        self._legal = np.zeros(4, np.bool_)
        self._score = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start a game.

        Args:
            seed: seed of the games, 0 to 2**64 - 1; None keeps the current one.
            options: `{"game": n}` starts game n of the seed instead of the next one.

        Returns:
            The observation and `info`, as the class describes them.

        Raises:
            ValueError: the seed or the game is out of range; the running game goes on.
        """
        chosen = self._seed if seed is None else seed
        if chosen is None:
            chosen = int(self.np_random.integers(1 << 63))
        game = int((options or {}).get("game", self._next_game if seed is None else 0))
        episodes = Episodes(chosen, [game])  # refuses what is out of range, before anything changes
        super().reset(seed=seed)
        self._seed, self._episodes, self._next_game = chosen, episodes, game + 1
        self._look(self._episodes)
        self._show()
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Make one move.

        Returns:
            Observation, reward, `terminated`, `truncated` and `info`, as the class describes them.

        Raises:
            ResetNeeded: no game is running.
            InvalidAction: the action is not in 0 to 3.
        """
        if self._episodes is None:
            raise gymnasium.error.ResetNeeded("no game is running: call reset()")
        if not 0 <= action <= 3:
            raise gymnasium.error.InvalidAction(f"action {action} is not in 0 to 3")
        if not self._legal[action]:
            return self._observation(), 0.0, False, False, self._info()
        before = self._score
        finished = self._episodes.step([int(action)])
        if finished:
            (episode,) = finished
            self._board, self._score = episode.final_board, episode.score
            self._legal = np.zeros(4, np.bool_)
            self._episodes = None
        else:
            self._look(self._episodes)
        self._show()
        return self._observation(), float(self._score - before), bool(finished), False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are legal now: `[4]`, True is legal."""
        return self._legal.copy()

    def render(self) -> Any:
        """The board: four lines in mode "ansi", pixels `[height, width, 3]` in "rgb_array", else None."""
        if self.render_mode == "ansi":
            return board_text(self._board)
        if self.render_mode == "rgb_array":
            return pixels_of(self._board)
        self._show()
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def _look(self, episodes: Episodes) -> None:
        self._board, self._legal, self._score = episodes.boards[0], episodes.legal[0], int(episodes.scores[0])

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self._board)

    def _observation(self) -> NDArray[np.uint8]:
        return observation(self._board, self._one_hot)

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self._legal.astype(np.int8),
            "score": self._score,
            "largest_tile": 1 << int(self._board.max()),
        }


def observation_space(one_hot: bool) -> gymnasium.spaces.Space[NDArray[np.uint8]]:
    """The space of the observations of a board."""
    shape, largest = ((4, 4, LARGEST_EXPONENT + 1), 1) if one_hot else ((4, 4), LARGEST_EXPONENT)
    space: gymnasium.spaces.Space[Any] = gymnasium.spaces.Box(0, largest, shape, np.uint8)
    return space


def observation(boards: NDArray[np.uint8], one_hot: bool) -> NDArray[np.uint8]:
    """A copy of boards `[..., 16]` as observations `[..., 4, 4]` or `[..., 4, 4, 18]`."""
    square = boards.reshape(*boards.shape[:-1], 4, 4)
    return np.eye(LARGEST_EXPONENT + 1, dtype=np.uint8)[square] if one_hot else square.copy()


for _id in (ENVIRONMENT_ID, OLD_ID):
    gymnasium.register(
        _id,
        entry_point=f"{__name__}:{Game2048Env.__name__}",
        vector_entry_point="octofold_game.vector_environment:Game2048VectorEnv",
    )
