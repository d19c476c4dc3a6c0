"""2048 as a gymnasium environment, for any library whose agents use gymnasium's interface.

This module needs gymnasium (`octofold[gymnasium]`), and no other module imports it. `Episodes` plays the
games, so a seed spawns the same tiles as in an evaluation. gymnasium's `SyncVectorEnv` plays many games at
once.
"""

from __future__ import annotations

from operator import index
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from octofold_game.drawing.board_text import board_text
from octofold_game.environments.rendering import FRAMES_PER_SECOND, Window, pixels_of
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import LARGEST_EXPONENT, legal_moves

ENVIRONMENT_ID = "octofold/2048-v0"
"""Name of the environment. `gymnasium.make("octofold_game.environments.single:octofold/2048-v0")` imports
this module and creates the environment."""


class Game2048Env(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """A gymnasium environment that plays one game of 2048 after another.

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
        continues. `info["action_mask"]` `[4] int8` is 1 for each legal action, as `action_space.sample(mask)`
        expects it. `action_masks()` returns the mask as `bool`, as agents such as MaskablePPO expect it.
    end
        `terminated` is True when no action is legal, or when two tiles 131072 have merged; the last
        observation shows the result as 131072. `truncated` is always False. `info` also has `score` and
        `largest_tile`.
    seed
        `reset(seed=s)` starts game 0 of `Episodes(s, ...)`. Each later `reset()` starts the next game of that
        seed, and `options={"game": n}` starts game n. An evaluation with the same seed plays the same
        games, so they can be compared move by move. `s` is 0 to 2**64 - 1; without `s`, the seed is random.
    start
        `options={"board": b}` starts from board `b`, exponents `[4, 4]` or `[16]`, with score 0. The new
        tile after move `k` uses the same random bits as in a game that begins with two starting tiles.
    rendering
        `render_mode="ansi"` gives text and "rgb_array" pixels; "human" shows each board in a window.
        The last two raise `DependencyNotInstalled` at the first board if Pillow is not installed.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 -- gymnasium's own type
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": FRAMES_PER_SECOND,
    }

    def __init__(self, *, one_hot: bool = False, render_mode: str | None = None) -> None:
        """Set up the spaces of actions and observations; `reset` starts the first game.

        Args:
            one_hot: whether observations are one-hot planes instead of exponents.
            render_mode: None, "ansi", "rgb_array" (needs Pillow) or "human" (also needs pygame).

        Raises:
            ValueError: the render mode is unknown.
            DependencyNotInstalled: the mode is "human", and pygame is not installed.
        """
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"unknown render mode {render_mode!r}; allowed are None, {', '.join(modes)}")
        self.render_mode = render_mode
        self._window = Window("2048") if render_mode == "human" else None
        self.action_space = gymnasium.spaces.Discrete(4)
        shape, largest = ((4, 4, LARGEST_EXPONENT + 1), 1) if one_hot else ((4, 4), LARGEST_EXPONENT)
        self.observation_space: Any = gymnasium.spaces.Box(0, largest, shape, np.uint8)
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
            seed: seed of the games, 0 to 2**64 - 1; None keeps the current seed, which is random at first.
            options: `{"game": n}` starts game n of the seed instead of the next one. `{"board": b}` starts
                the game from board `b`.

        Returns:
            The observation and `info`, as the class describes them.

        Raises:
            ValueError: the game is not a whole number, the seed or the game is out of range, or the board is
                malformed or has no legal move; the running game continues.
            TypeError: the seed is not a whole number; the running game continues.
        """
        seed = None if seed is None else index(seed)  # gymnasium does not accept numpy integers
        chosen = self._seed if seed is None else seed
        if chosen is None:
            chosen = int(self.np_random.integers(1 << 63))
        options = options or {}
        game = _game_index(options.get("game", self._next_game if seed is None else 0))
        board = _starting_board(options["board"]) if "board" in options else None
        episodes = Episodes(chosen, [game])  # check the ranges before any change
        if board is not None:
            episodes = Episodes(chosen)
            episodes.resume([Episode(game, chosen, LARGEST_EXPONENT, board, b"", 0, board)])
        super().reset(seed=seed)
        self._seed, self._episodes, self._next_game = chosen, episodes, game + 1
        self._read_state(self._episodes)
        self._show()
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Make one move.

        Returns:
            Observation, reward, `terminated`, `truncated` and `info`, as the class describes them.

        Raises:
            ResetNeeded: no game is running.
            InvalidAction: the action is not a whole number from 0 to 3.
        """
        if self._episodes is None:
            raise gymnasium.error.ResetNeeded("no game is running: call reset()")
        try:
            chosen = index(action)
        except TypeError:
            raise gymnasium.error.InvalidAction(f"action must be a whole number, got {action!r}") from None
        if not 0 <= chosen <= 3:
            raise gymnasium.error.InvalidAction(f"action must be from 0 to 3, got {action}")
        if not self._legal[chosen]:
            return self._observation(), 0.0, False, False, self._info()
        before = self._score
        finished = self._episodes.step([chosen])
        if finished:
            (episode,) = finished
            self._board, self._score = episode.final_board, episode.score
            self._legal = np.zeros(4, np.bool_)
            self._episodes = None
        else:
            self._read_state(self._episodes)
        self._show()
        return self._observation(), float(self._score - before), bool(finished), False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask of the actions that are legal on the current board: `[4]`, True is legal."""
        return self._legal.copy()

    def render(self) -> Any:
        """Return the board: four lines for "ansi", pixels `[height, width, 3]` for "rgb_array", else None."""
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

    def _read_state(self, episodes: Episodes) -> None:
        self._board, self._legal, self._score = episodes.boards[0], episodes.legal[0], int(episodes.scores[0])

    def _show(self) -> None:
        if self._window is not None:
            self._window.show(self._board)

    def _observation(self) -> NDArray[np.uint8]:
        square = np.minimum(self._board, LARGEST_EXPONENT).reshape(4, 4)
        return np.eye(LARGEST_EXPONENT + 1, dtype=np.uint8)[square] if self._one_hot else square

    def _info(self) -> dict[str, Any]:
        return {
            "action_mask": self._legal.astype(np.int8),
            "score": self._score,
            "largest_tile": 1 << int(self._board.max()),
        }


def _game_index(game: Any) -> int:
    """Convert the index of a game to int; raise ValueError for other types. `Episodes` checks its range."""
    try:
        return index(game)
    except TypeError:
        raise ValueError(f"options['game'] must be a whole number, got {game!r}") from None


def _starting_board(board: Any) -> NDArray[np.uint8]:
    """Check the board with which a game is to start, and convert it to `[16] uint8`.

    Raises:
        ValueError: the shape is neither `[4, 4]` nor `[16]`, an exponent is outside 0 to 17, or no move is
            legal.
    """
    given = np.asarray(board)
    if given.dtype.kind not in "iu" or given.shape not in ((16,), (4, 4)):
        raise ValueError(
            "options['board'] must be integers of shape [4, 4] or [16], got "
            f"{given.dtype} of shape {list(given.shape)}"
        )
    if given.min() < 0 or given.max() > LARGEST_EXPONENT:
        raise ValueError(
            f"options['board'] must have exponents from 0 to {LARGEST_EXPONENT}, such as 11 for 2048, got "
            f"{given.max() if given.max() > LARGEST_EXPONENT else given.min()}"
        )
    found: NDArray[np.uint8] = given.reshape(16).astype(np.uint8)
    if not legal_moves(found[None]).any():
        raise ValueError(f"options['board'] must have a legal move, got {found.tolist()}")
    return found


gymnasium.register(ENVIRONMENT_ID, entry_point=f"{__name__}:{Game2048Env.__name__}")
