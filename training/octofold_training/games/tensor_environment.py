"""Plays thousands of games of 2048 in lockstep, as tensors on one device.

A move looks up its four lines in tables made from the rules. A new game replaces a finished one at once. No
step copies a value to the CPU, so the CPU never waits for the device. A share of the games starts from boards
that earlier games reached, so that late positions are frequent although few games reach them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from octofold_game import rules
from octofold_game.spawns import CHANCE_OF_FOUR
from torch import Tensor

_BASE = rules.LARGEST_EXPONENT + 1
_HISTORY = 64  # number of snapshots of all boards; games restart from these boards


class MoveTable:
    """The slides of all 104,976 lines of four cells in both directions, on one device.

    The index of a line with the exponents a, b, c, d is `a + 18 b + 324 c + 5832 d`.
    """

    def __init__(self, device: torch.device) -> None:
        lines = np.zeros((_BASE**4, 16), np.uint8)
        lines[:, :4] = np.arange(_BASE**4)[:, None] // _BASE ** np.arange(4) % _BASE
        afterstates, points, legal = rules.afterstates(lines)
        front, back = 3, 1  # the moves left and right, which slide the top row to its first and last cell
        self.slid = torch.from_numpy(afterstates[:, (front, back), :4].swapaxes(0, 1).copy()).to(device)
        """`[2, L, 4] uint8`: every line after a slide to its first cell, and to its last cell."""
        self.points = torch.from_numpy(points[:, front].copy()).to(device)
        """`[L] int32`: the points for a slide of every line, the same in both directions."""
        self._changes = torch.from_numpy(legal[:, (front, back)]).to(device)
        self._weights = torch.from_numpy(_BASE ** np.arange(4)).to(device)

    def slide(self, boards: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Play one move `[N]` on each of the boards `[N, 16] uint8`.

        Returns the afterstates `[N, 16] uint8`, unchanged where the move is illegal, and the indices `[N, 4]`
        of the lines before the slide, as in `points`.
        """
        cells = boards.view(-1, 4, 4)
        vertical = (moves % 2 == 0)[:, None, None]
        to_last_cell = (moves == 1) | (moves == 2)
        lines = self._indices(torch.where(vertical, cells.mT, cells))
        slid = self.slid[to_last_cell.long()[:, None], lines]
        return torch.where(vertical, slid.mT, slid).reshape(-1, 16), lines

    def legal(self, boards: Tensor) -> Tensor:
        """Return `[N, 4] bool`: whether each move changes each of the boards `[N, 16] uint8`."""
        cells = boards.view(-1, 4, 4)
        left, right = self._changes[self._indices(cells)].any(dim=1).unbind(1)
        up, down = self._changes[self._indices(cells.mT)].any(dim=1).unbind(1)
        return torch.stack([up, right, down, left], dim=1)

    def _indices(self, cells: Tensor) -> Tensor:
        return (cells * self._weights).sum(dim=-1)


def spawn(boards: Tensor, random: Tensor) -> Tensor:
    """Add a 2 or a 4 to boards `[N, 16] uint8`, in an empty cell chosen uniformly, and return the boards.

    `random` `[N, 2]` holds numbers in [0, 1) that choose the cell and the tile. A full board stays unchanged.
    """
    empty = boards == 0
    place = (random[:, :1] * empty.sum(dim=1, keepdim=True)).floor() + 1
    chosen = empty & (empty.cumsum(dim=1) == place)
    exponent = 1 + (random[:, 1:] < CHANCE_OF_FOUR).to(torch.uint8)
    return boards + chosen * exponent


@dataclass(frozen=True)
class Scores:
    """The scores of games played from the first move to the end.

    Short games end first, so the average is too low until the run has lasted for several games.
    """

    games: int
    average: float
    best: int


class Environment:
    """Many games in lockstep. A game ends when no move is legal or a tile's exponent reaches `exponents`.

    `boards` `[N, 16] uint8` are the current boards, and `legal` `[N, 4] bool` marks their legal moves. Every
    board has a legal move.
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
            games: number of games.
            exponents: number of exponents that the network distinguishes.
            generator: random generator for new games and new tiles.
            restart_share: share of new games that begin with a remembered board, after the first `remember`.
            table: a move table, which several environments may share; None: a new one.
        """
        device = generator.device
        self.table = table or MoveTable(device)
        self._exponents = exponents
        self._restart_share = restart_share
        self.generator = generator
        self._history = torch.zeros(_HISTORY * games, 16, dtype=torch.uint8, device=device)
        self._remembered = torch.zeros((), dtype=torch.int64, device=device)
        self._score = torch.zeros(games, dtype=torch.int64, device=device)
        # The games that ended since the last call of `scores`: their number, sum of scores, best score.
        self._ended_games = torch.zeros(3, dtype=torch.int64, device=device)
        self.boards, self._whole = self._starts(games)
        self.legal = self.table.legal(self.boards)

    def step(self, moves: Tensor) -> Tensor:
        """Play one legal move `[N]` in each game. Return `[N] bool`: which games ended and were replaced."""
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
        """Add boards `[games, 16] uint8`, each with a legal move, to the boards from which games restart.

        The new boards replace the oldest ones.
        """
        games = len(self.boards)
        places = torch.arange(games, device=self.boards.device) + self._remembered % len(self._history)
        self._history[places] = boards
        self._remembered += games

    def restart(self) -> None:
        """Abandon all games and start new ones."""
        self.boards, self._whole = self._starts(len(self.boards))
        self._score.zero_()
        self._ended_games.zero_()
        self.legal = self.table.legal(self.boards)

    def scores(self) -> Scores:
        """Return the scores of the games that ended since the last call. Waits for the device."""
        games, total, best = self._ended_games.tolist()
        self._ended_games.zero_()
        return Scores(games, total / games if games else 0.0, best)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `restore` needs, except the generator."""
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
            ValueError: the state has a different number of games.
        """
        if state["boards"].shape != self.boards.shape:
            raise ValueError(f"the state must have {len(self.boards)} games, got {len(state['boards'])}")
        self.boards.copy_(state["boards"])
        self._whole.copy_(state["whole"])
        self._score.copy_(state["score"])
        self._history.copy_(state["history"])
        self._remembered.copy_(state["remembered"])
        self.legal = self.table.legal(self.boards)

    def _starts(self, games: int) -> tuple[Tensor, Tensor]:
        """Return boards `[N, 16]` of new games, and `[N] bool`: which games begin with the first move."""
        empty = torch.zeros(games, 16, dtype=torch.uint8, device=self._history.device)
        first = spawn(spawn(empty, self._random(games)), self._random(games))
        share, place = self._random(games).unbind(1)
        filled = self._remembered.clamp(max=len(self._history))
        whole = (share >= self._restart_share) | (filled == 0)
        # In float64, the product never rounds up to `filled`, which would be out of range.
        reached = self._history[(place.double() * filled).long()]
        return torch.where(whole[:, None], first, reached), whole

    def _random(self, games: int) -> Tensor:
        return torch.rand(games, 2, generator=self.generator, device=self.generator.device)
