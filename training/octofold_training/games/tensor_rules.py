"""The rules of 2048 in plain tensor operations: legal moves by convolutions, slides by sorting.

Marshall, turbozero, "2048 Env", https://github.com/lowrollr/turbozero/wiki/2048-Env, 2024. It runs on any
device of torch. `environment.MoveTable` does the same by looking lines up, and `environment.Environment`
takes either; bench/NOTES.md compares their speed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from octofold_training.games.environment import line_weights

_BLOCKED = -1e5  # what a filled cell counts where a tile would slide to: no sum with it is positive
# A tile can slide where a cell is empty and its neighbor on the other side is not.
_LEFT, _RIGHT = [[[_BLOCKED, 1.0]]], [[[1.0, _BLOCKED]]]
_UP, _DOWN = [[[_BLOCKED], [1.0]]], [[[1.0], [_BLOCKED]]]


class TensorRules:
    """The rules on one device."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._rows = torch.tensor([_RIGHT, _LEFT], device=device)
        self._columns = torch.tensor([_UP, _DOWN], device=device)
        self._ranks = torch.arange(4, 0, -1, dtype=torch.uint8, device=device)
        self._weights = line_weights(device)

    def legal(self, boards: Tensor) -> Tensor:
        """As `environment.Rules.legal`."""
        cells = boards.view(-1, 1, 4, 4).float()
        right, left = (conv2d(cells, self._rows) > 0.5).flatten(2).any(dim=2).unbind(1)
        up, down = (conv2d(cells, self._columns) > 0.5).flatten(2).any(dim=2).unbind(1)
        square = boards.view(-1, 4, 4)
        # A merge over a gap needs no check: its second tile can slide.
        across = ((square[:, :, 1:] == square[:, :, :-1]) & (square[:, :, 1:] != 0)).flatten(1).any(dim=1)
        along = ((square[:, 1:] == square[:, :-1]) & (square[:, 1:] != 0)).flatten(1).any(dim=1)
        return torch.stack([up | along, right | across, down | along, left | across], dim=1)

    def slide(self, boards: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """As `environment.Rules.slide`."""
        turns = (moves + 1) % 4  # of a quarter, counterclockwise, until the move is to the left
        turned = _turned(boards.view(-1, 4, 4), turns)
        after = _turned(self._merged(turned.reshape(-1, 4)).view(-1, 4, 4), (4 - turns) % 4)
        return after.reshape(-1, 16), (turned * self._weights).sum(dim=2)

    def _merged(self, lines: Tensor) -> Tensor:
        """Lines `[M, 4]` slid to their first cells."""
        slid = self._collapsed(lines)
        for first in range(3):
            same = (slid[:, first] == slid[:, first + 1]) & (slid[:, first] != 0)
            slid[:, first] += same
            slid[:, first + 1].masked_fill_(same, 0)
        return self._collapsed(slid)

    def _collapsed(self, lines: Tensor) -> Tensor:
        """Tiles moved to the front by a stable sort: earlier tiles have higher ranks, gaps have none."""
        order = (self._ranks * (lines != 0)).argsort(dim=1, descending=True, stable=True)
        return lines.gather(1, order)


def _turned(squares: Tensor, turns: Tensor) -> Tensor:
    """Each of `[N, 4, 4]` turned counterclockwise by its number `[N]` of quarters."""
    turned = squares
    for quarters in (1, 2, 3):
        chosen = (turns == quarters)[:, None, None]
        turned = torch.where(chosen, torch.rot90(squares, quarters, (1, 2)), turned)
    return turned
