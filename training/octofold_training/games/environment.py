"""Thousands of games of 2048 in lockstep, as tensors on one device.

A move looks up its four lines in tables made from the rules. Games that end start again at once. No step
reads a value back, so nothing waits for the device. A share of the games starts from boards that earlier
games reached, so that late positions are frequent although few games reach them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from octofold_game import rules
from octofold_game.spawns import CHANCE_OF_FOUR
from torch import Tensor

_BASE = rules.LARGEST_EXPONENT + 1
_HISTORY = 64  # snapshots of all games that restarts choose from


class MoveTable:
    """Slides of all 104,976 lines of four cells, in both directions, on one device.

    A line is numbered `a + 18 b + 324 c + 5832 d` from the exponents of its cells.
    """

    def __init__(self, device: torch.device) -> None:
        lines = np.zeros((_BASE**4, 16), np.uint8)
        lines[:, :4] = np.arange(_BASE**4)[:, None] // _BASE ** np.arange(4) % _BASE
        afterstates, points, legal = rules.afterstates(lines)
        front, back = 3, 1  # as the top row moves: to its first cell is left, to its last is right
        self.slid = torch.from_numpy(afterstates[:, (front, back), :4].swapaxes(0, 1).copy()).to(device)
        """Every line after a slide to its first and to its last cell, `[2, L, 4] uint8`."""
        self.points = torch.from_numpy(points[:, front].copy()).to(device)
        """Score of a slide of every line, in either direction, `[L] int32`."""
        self._changes = torch.from_numpy(legal[:, (front, back)]).to(device)
        self._weights = torch.from_numpy(_BASE ** np.arange(4)).to(device)

    def slide(self, boards: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Play one move `[N]` in each of `[N, 16] uint8` boards.

        Returns the afterstates `[N, 16] uint8`, unchanged where the move is illegal, and the numbers of the
        lines that slid `[N, 4]`, by which points are looked up.
        """
        cells = boards.view(-1, 4, 4)
        vertical = (moves % 2 == 0)[:, None, None]
        to_last_cell = (moves == 1) | (moves == 2)
        lines = self._numbers(torch.where(vertical, cells.mT, cells))
        slid = self.slid[to_last_cell.long()[:, None], lines]
        return torch.where(vertical, slid.mT, slid).reshape(-1, 16), lines

    def legal(self, boards: Tensor) -> Tensor:
        """Which moves change each of `[N, 16] uint8` boards: `[N, 4] bool`."""
        cells = boards.view(-1, 4, 4)
        left, right = self._changes[self._numbers(cells)].any(dim=1).unbind(1)
        up, down = self._changes[self._numbers(cells.mT)].any(dim=1).unbind(1)
        return torch.stack([up, right, down, left], dim=1)

    def _numbers(self, cells: Tensor) -> Tensor:
        return (cells * self._weights).sum(dim=-1)


def spawn(boards: Tensor, random: Tensor) -> Tensor:
    """`[N, 16] uint8` boards with a 2 or a 4 in a uniform empty cell.

    `random` `[N, 2]` holds numbers from 0 up to but not 1: the cell and the tile. A full board stays.
    """
    empty = boards == 0
    place = (random[:, :1] * empty.sum(dim=1, keepdim=True)).floor() + 1
    chosen = empty & (empty.cumsum(dim=1) == place)
    exponent = 1 + (random[:, 1:] < CHANCE_OF_FOUR).to(torch.uint8)
    return boards + chosen * exponent


@dataclass(frozen=True)
class Scores:
    """The scores of games that were played from the first move to the end.

    Short games end first, so the average is too low until the run is several games long.
    """

    games: int
    average: float
    best: int


class Environment:
    """`games` games at once; a game ends when no move is legal or when it outgrows `exponents` exponents.

    `boards` `[N, 16] uint8` and their `legal` moves `[N, 4] bool` are what to move on next; no board is over.
    """

    def __init__(
        self,
        games: int,
        exponents: int,
        generator: torch.Generator,
        restart_share: float = 0.0,
        table: MoveTable | None = None,
    ) -> None:
        """Begin the games on the device of `generator`.

        Args:
            games: games at once.
            exponents: that the network tells apart.
            generator: of the starts and the spawns.
            restart_share: share of the games that begin with a board of `remember`.
            table: several environments may share one.
        """
        device = generator.device
        self.table = table or MoveTable(device)
        self._exponents = exponents
        self._restart_share = restart_share
        self.generator = generator
        self._history = torch.zeros(_HISTORY * games, 16, dtype=torch.uint8, device=device)
        self._remembered = torch.zeros((), dtype=torch.int64, device=device)
        self._score = torch.zeros(games, dtype=torch.int64, device=device)
        self._ended_games = torch.zeros(3, dtype=torch.int64, device=device)  # number, sum of scores, best
        self.boards, self._whole = self._starts(games)
        self.legal = self.table.legal(self.boards)

    def step(self, moves: Tensor) -> Tensor:
        """Play one legal move `[N]` in each game; returns which ended, `[N] bool`: these have begun again."""
        afterstates, lines = self.table.slide(self.boards, moves)
        outgrown = (afterstates >= self._exponents).any(dim=1)
        boards = spawn(afterstates, self._random(len(moves)))
        lost = ~self.table.legal(boards * ~outgrown[:, None]).any(dim=1) & ~outgrown
        ended = lost | outgrown
        score = self._score + self.table.points[lines].sum(dim=1)
        finished = torch.where(ended & self._whole, score, 0)
        count = (ended & self._whole).sum()
        self._ended_games[:2] += torch.stack([count, finished.sum()])
        self._ended_games[2] = torch.maximum(self._ended_games[2], finished.max())

        starts, whole = self._starts(len(moves))
        self.boards = torch.where(ended[:, None], starts, boards)
        self._whole = torch.where(ended, whole, self._whole)
        self._score = torch.where(ended, 0, score)
        self.legal = self.table.legal(self.boards)
        return ended

    def remember(self, boards: Tensor) -> None:
        """Add boards `[games, 16] uint8`, each with a legal move, to what games restart from.

        The oldest leave it.
        """
        games = len(self.boards)
        places = torch.arange(games, device=self.boards.device) + self._remembered % len(self._history)
        self._history[places] = boards
        self._remembered += games

    def restart(self) -> None:
        """Give up all games and start each again."""
        self.boards, self._whole = self._starts(len(self.boards))
        self._score.zero_()
        self._ended_games.zero_()
        self.legal = self.table.legal(self.boards)

    def scores(self) -> Scores:
        """Return the scores of the games that ended since the last call; waits for the device."""
        games, total, best = self._ended_games.tolist()
        self._ended_games.zero_()
        return Scores(games, total / games if games else 0.0, best)

    def state(self) -> dict[str, Tensor]:
        """Everything that `restore` needs, except the generator."""
        return {
            "boards": self.boards,
            "whole": self._whole,
            "score": self._score,
            "history": self._history,
            "remembered": self._remembered,
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from an earlier `state`.

        Raises:
            ValueError: there were more or fewer games.
        """
        if state["boards"].shape != self.boards.shape:
            raise ValueError(f"the saved state has {len(state['boards'])} games, not {len(self.boards)}")
        self.boards.copy_(state["boards"])
        self._whole.copy_(state["whole"])
        self._score.copy_(state["score"])
        self._history.copy_(state["history"])
        self._remembered.copy_(state["remembered"])
        self.legal = self.table.legal(self.boards)

    def _starts(self, games: int) -> tuple[Tensor, Tensor]:
        """Boards to start from `[N, 16]`, and which of them are first positions `[N] bool`."""
        empty = torch.zeros(games, 16, dtype=torch.uint8, device=self._history.device)
        first = spawn(spawn(empty, self._random(games)), self._random(games))
        share, place = self._random(games).unbind(1)
        filled = self._remembered.clamp(max=len(self._history))
        whole = (share >= self._restart_share) | (filled == 0)
        # In float64, where the product never rounds up to `filled`.
        reached = self._history[(place.double() * filled).long()]
        return torch.where(whole[:, None], first, reached), whole

    def _random(self, games: int) -> Tensor:
        return torch.rand(games, 2, generator=self.generator, device=self.generator.device)
