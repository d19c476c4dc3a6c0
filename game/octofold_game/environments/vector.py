"""Many games of 2048 at once as a gymnasium vector environment.

`gymnasium.make_vec("octofold_game.environments.single:octofold/2048-v0", num_envs=N)` makes one. The tables
of `rules.py` step all boards together. It does what gymnasium's `SyncVectorEnv` does with N environments of
the same seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from octofold_game.drawing.board_text import board_text
from octofold_game.environments.rendering import check_mode, pixels_of
from octofold_game.environments.single import (
    Game2048Env,
    given_boards,
    observation,
    observation_space,
    whole_games,
)
from octofold_game.rules import LARGEST_EXPONENT, afterstates
from octofold_game.spawns import STARTING_TILES, SpawnStreams, spawn, starting_boards

Rows: TypeAlias = NDArray[np.intp]
Step: TypeAlias = tuple[
    NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class Game2048VectorEnv(VectorEnv[NDArray[np.uint8], NDArray[np.int64], NDArray[Any]]):
    """Plays `num_envs` games at once; `Game2048Env` describes observations, actions, rewards and `info`.

    seeds
        `reset(seed=s)` gives row i the seed `s + i`, and `reset(seed=[...])` one seed to each row. After a
        game, its row plays the next game of its seed.
    autoreset
        `autoreset_mode` is one of gymnasium's. `NEXT_STEP`, the default: the step after the end of a game
        ignores its action and returns the start of the next game. `SAME_STEP`: the step that ends a game
        returns the start of the next one; `info["final_obs"]` and `info["final_info"]` have the end.
        `DISABLED`: the caller resets ended games by `reset(options={"reset_mask": ended})`.
    rendering
        `render()` returns a tuple with one text ("ansi") or picture ("rgb_array") for each game.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 -- gymnasium's own type
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": Game2048Env.metadata["render_fps"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        one_hot: bool = False,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Set up the spaces; `reset` starts the first games.

        Args:
            num_envs: number of games at a time, from 1.
            one_hot: whether observations are one-hot planes instead of exponents.
            render_mode: None, "ansi" or "rgb_array" (needs Pillow).
            autoreset_mode: what follows the end of a game.

        Raises:
            ValueError: an argument is not allowed.
        """
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}, allowed is 1 or more")
        check_mode(render_mode, self.metadata["render_modes"])
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._autoreset = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self._autoreset}
        self.single_action_space = gymnasium.spaces.Discrete(4)
        self.single_observation_space = observation_space(one_hot)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._one_hot = one_hot
        self._seeds: NDArray[np.uint64] | None = None  # None before the first reset
        self._next_games = np.zeros(num_envs, np.uint64)
        self._games = np.zeros(num_envs, np.uint64)
        self._moves = np.zeros(num_envs, np.uint64)
        self._boards = np.zeros((num_envs, 16), np.uint8)
        self._scores = np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, np.bool_)
        self._afterstates, self._rewards, self._legal = afterstates(self._boards)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start games.

        Args:
            seed: seed of the first row, or a seed for each row; None keeps the current ones.
            options: `{"game": n}` starts game n of each seed, or game `n[i]` in row i. `{"reset_mask": mask}`
                starts games only in the rows where the mask, `[num_envs] bool`, is True. `{"board": b}`
                starts them from another board: exponents `[4, 4]` or `[16]`, or one such board for each row.

        Returns:
            The observations of all games. `info` describes the games that started, as masks in it show.

        Raises:
            ValueError: a seed or a game is out of range, the mask has another shape, or a board is none on
                which a game can go on; the games go on.
            ResetNeeded: there is a mask, but no game to keep.
        """
        options = options or {}
        if isinstance(seed, np.integer):
            seed = int(seed)  # as gymnasium wants it
        started = np.ones(self.num_envs, np.bool_)
        if "reset_mask" in options:
            if self._seeds is None:
                raise gymnasium.error.ResetNeeded("no game is running: call reset() without a mask")
            started = self._mask(options["reset_mask"])
        seeds, next_games = self._seeded(seed, started)
        if "game" in options:
            next_games[started] = whole_games(options["game"], (self.num_envs,))[started].astype(np.uint64)
        boards = given_boards(options["board"], self.num_envs) if "board" in options else None
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._seeds, self._next_games = seeds, next_games
        self._start(np.flatnonzero(started), boards)
        return self._observations(), self._info(started)

    def step(self, actions: ArrayLike) -> Step:
        """Make one move in every game; `Game2048Env.step` says what a move does.

        Returns:
            Observations, rewards, `terminated`, `truncated` and `info`, one row for each game.

        Raises:
            ResetNeeded: no game is running, or one has ended and `autoreset_mode` is `DISABLED`.
            InvalidAction: the actions are not `num_envs` numbers in 0 to 3.
        """
        if self._seeds is None:
            raise gymnasium.error.ResetNeeded("no game is running: call reset()")
        if self._autoreset is AutoresetMode.DISABLED and self._ended.any():
            raise gymnasium.error.ResetNeeded(
                f"game {int(self._ended.argmax())} has ended: call reset(options={{'reset_mask': ...}})"
            )
        chosen = self._checked(actions)
        fresh = np.flatnonzero(self._ended)  # none but with `NEXT_STEP`
        before = self._scores
        self._move(chosen)
        terminated: NDArray[np.bool_] = np.logical_not(self._legal.any(axis=1))
        info: dict[str, Any] = {}
        rewards = (self._scores - before).astype(np.float64)
        if len(fresh):
            self._start(fresh)
            rewards[fresh], terminated[fresh] = 0.0, False
        self._ended = terminated.copy()
        if self._autoreset is AutoresetMode.SAME_STEP and terminated.any():
            info = self._final(terminated)
            self._start(np.flatnonzero(terminated))
        info.update(self._info(np.ones(self.num_envs, np.bool_)))
        return self._observations(), rewards, terminated, np.zeros(self.num_envs, np.bool_), info

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are legal now: `[num_envs, 4]`, True is legal."""
        return self._legal.copy()

    def render(self) -> tuple[Any, ...] | None:
        """A text or a picture for each game, or None without a render mode."""
        if self.render_mode is None:
            return None
        render = board_text if self.render_mode == "ansi" else pixels_of
        return tuple(render(board) for board in self._boards)

    def _mask(self, mask: Any) -> NDArray[np.bool_]:
        if not (isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (self.num_envs,)):
            raise ValueError(f"reset_mask must be a numpy array [{self.num_envs}] of bool")
        return mask

    def _seeded(
        self, seed: int | Sequence[int | None] | None, started: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The seeds and the next games, with new ones for the rows that start where there is a new seed."""
        if seed is None:
            given: Sequence[int | None] = [None] * self.num_envs
        else:
            given = [seed + row for row in range(self.num_envs)] if isinstance(seed, int) else seed
        if len(given) != self.num_envs:
            raise ValueError(f"{len(given)} seeds for {self.num_envs} games")
        wrong = next((each for each in given if each is not None and not 0 <= each < 1 << 64), None)
        if wrong is not None:
            raise ValueError(f"seed {wrong} is not in 0 to 2**64 - 1")
        seeds, next_games = self._seeds, self._next_games.copy()
        if seeds is None:
            seeds = self.np_random.integers(1 << 63, size=self.num_envs, dtype=np.uint64)
        new = np.array([each is not None for each in given]) & started
        next_games[new] = 0
        return np.where(new, np.array([each or 0 for each in given], np.uint64), seeds), next_games

    def _start(self, rows: Rows, given: NDArray[np.uint8] | None = None) -> None:
        """Start the next game of each row, from its own board or from the given ones, `[num_envs, 16]`."""
        assert self._seeds is not None
        games = self._next_games[rows]
        boards = starting_boards(SpawnStreams(self._seeds[rows]), games) if given is None else given[rows]
        self._games[rows], self._next_games[rows] = games, games + np.uint64(1)
        self._moves[rows] = 0
        self._scores[rows] = 0
        self._ended[rows] = False
        self._look(rows, boards)

    def _move(self, chosen: Rows) -> None:
        """Make the chosen move in every game where it is legal."""
        assert self._seeds is not None
        rows = np.flatnonzero(self._legal[np.arange(self.num_envs), chosen])
        moved = self._afterstates[rows, chosen[rows]]
        numbers = self._moves[rows] + np.uint64(STARTING_TILES)
        bits = SpawnStreams(self._seeds[rows]).bits(self._games[rows], numbers)
        boards = spawn(moved, bits)
        gained = np.zeros(self.num_envs, np.int64)
        gained[rows] = self._rewards[rows, chosen[rows]]
        self._scores = self._scores + gained
        self._moves[rows] += np.uint64(1)
        self._look(rows, boards)

    def _look(self, rows: Rows, boards: NDArray[np.uint8]) -> None:
        """Put the new boards of these rows into place, with what moves on them lead to."""
        self._boards[rows] = boards
        found = afterstates(np.minimum(boards, LARGEST_EXPONENT))
        self._afterstates[rows], self._rewards[rows], self._legal[rows] = found
        self._legal[rows[boards.max(axis=1, initial=0) > LARGEST_EXPONENT]] = False

    def _checked(self, actions: ArrayLike) -> Rows:
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise gymnasium.error.InvalidAction(
                f"actions must be {self.num_envs} integers, not {chosen.dtype} of shape {list(chosen.shape)}"
            )
        wrong = (chosen < 0) | (chosen > 3)
        if wrong.any():
            row = int(wrong.argmax())
            raise gymnasium.error.InvalidAction(f"action {chosen[row]} of game {row} is not in 0 to 3")
        return chosen.astype(np.intp)

    def _observations(self) -> NDArray[np.uint8]:
        return observation(self._boards, self._one_hot)

    def _info(self, rows: NDArray[np.bool_]) -> dict[str, Any]:
        """The `info` of these rows as gymnasium merges it: arrays, with 0 for other rows, and masks."""
        found: dict[str, Any] = {
            "action_mask": np.where(rows[:, None], self._legal, False).astype(np.int8),
            "score": np.where(rows, self._scores, 0),
            "largest_tile": np.where(rows, np.int64(1) << self._boards.max(axis=1).astype(np.int64), 0),
        }
        return found | {f"_{key}": rows.copy() for key in found}

    def _final(self, ended: NDArray[np.bool_]) -> dict[str, Any]:
        """Gymnasium's final fields for games that ended in this step."""
        observations = np.full(self.num_envs, None, dtype=object)
        for row, last in zip(
            np.flatnonzero(ended), observation(self._boards[ended], self._one_hot), strict=True
        ):
            observations[row] = last
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": self._info(ended),
            "_final_info": ended.copy(),
        }
