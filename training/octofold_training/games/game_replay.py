"""Whole games to learn from: while they are played, and the latest of those that ended."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Unfinished:
    """The positions and shares of the games that are being played."""

    def __init__(self, games: int, device: torch.device) -> None:
        self._boards = torch.zeros(games, 256, 16, dtype=torch.uint8, device=device)
        self._shares = torch.zeros(games, 256, 4, dtype=torch.float16, device=device)
        self._lengths = torch.zeros(games, dtype=torch.int64, device=device)
        self._games = torch.arange(games, device=device)

    def add(self, boards: Tensor, shares: Tensor) -> None:
        """Append a position `[G, 16]` and its shares `[G, 4]` to each game."""
        if int(self._lengths.max()) == self._boards.shape[1]:
            self._boards = torch.cat([self._boards, torch.zeros_like(self._boards)], dim=1)
            self._shares = torch.cat([self._shares, torch.zeros_like(self._shares)], dim=1)
        self._boards[self._games, self._lengths] = boards
        self._shares[self._games, self._lengths] = shares.half()
        self._lengths += 1

    def take(self, ended: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The boards `[L, 16]` and shares `[L, 4]` of the games that `ended` `[G]`, which then begin anew."""
        taken = [
            (self._boards[game, :length].clone().cpu(), self._shares[game, :length].clone().cpu())
            for game, length in zip(self._games[ended].tolist(), self._lengths[ended].tolist(), strict=True)
        ]
        self._lengths[ended] = 0
        return taken

    def state(self) -> dict[str, Tensor]:
        """Everything that `restore` needs."""
        longest = max(1, int(self._lengths.max()))
        return {
            "boards": self._boards[:, :longest].clone(),
            "shares": self._shares[:, :longest].clone(),
            "lengths": self._lengths,
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from an earlier `state`."""
        device = self._lengths.device
        self._boards, self._shares = state["boards"].to(device), state["shares"].to(device)
        self._lengths.copy_(state["lengths"])


class GameReplay:
    """The latest whole games."""

    def __init__(self, games: int) -> None:
        self._games: deque[tuple[Tensor, Tensor]] = deque(maxlen=games)

    def __len__(self) -> int:
        return len(self._games)

    def add(self, boards: Tensor, shares: Tensor) -> None:
        """Keep a game, boards `[L, 16]` and shares `[L, 4]`, in place of the oldest."""
        self._games.append((boards, shares))

    def batch(self, size: int, random: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Random positions of random games: boards `[B, 16]`, shares `[B, 4]`, moves left `[B]`."""
        chosen = [self._games[game] for game in random.integers(0, len(self._games), size)]
        lengths = np.array([len(boards) for boards, _ in chosen])
        at = random.integers(0, lengths)
        boards = torch.stack([game[0][move] for game, move in zip(chosen, at, strict=True)])
        shares = torch.stack([game[1][move] for game, move in zip(chosen, at, strict=True)])
        return boards, shares.float(), torch.from_numpy(lengths - at).float()

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs."""
        return {
            "lengths": [len(boards) for boards, _ in self._games],
            "boards": torch.cat([torch.zeros(0, 16, dtype=torch.uint8), *(each[0] for each in self._games)]),
            "shares": torch.cat([torch.zeros(0, 4, dtype=torch.float16), *(each[1] for each in self._games)]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier `state`; of more games than this replay holds, the latest."""
        parts = (state[name].split(state["lengths"]) for name in ("boards", "shares"))
        self._games.extend(zip(*parts, strict=True))
