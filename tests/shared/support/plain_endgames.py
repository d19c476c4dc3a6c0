"""Exact chances of endgames by their definition, with full boards and the rules, without rounding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.bitboards import pack, unpack
from octofold_players.endgame.formation import Formation

SPAWNS = ((1, 0.9), (2, 0.1))


@dataclass(frozen=True)
class _Layer:
    """Boards of one sum of tiles, and the results of their moves."""

    boards: NDArray[np.uint64]
    after: NDArray[np.uint8]
    won: NDArray[np.bool_]
    goes_on: NDArray[np.bool_]


def exact_chances(formation: Formation, largest: int, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the chance of success of each move `[N, 4]` on boards `[N, 16]` if the best moves follow it.

    The chances of all later boards are computed first, from the largest sum of tiles down.
    """
    layers = _layers(formation, largest, boards)
    moves: dict[int, NDArray[np.float64]] = {}
    for total, layer in sorted(layers.items(), reverse=True):
        moves[total] = layer.won.astype(float)
        for open_cell, exponent, share, following in _following(formation, layer):
            later = total + (1 << exponent)
            best = moves[later].max(axis=1)[np.searchsorted(layers[later].boards, following)]
            moves[total][open_cell] += share * best / (layer.after == 0).sum(axis=2)[open_cell]
    packed, totals = pack(boards), _totals(boards)
    return np.array(
        [
            moves[total][np.searchsorted(layers[total].boards, board)]
            for board, total in zip(packed, totals.tolist(), strict=True)
        ]
    )


def reachable(formation: Formation, largest: int, boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return boards `[N, 16]` and all boards that can follow them."""
    layers = _layers(formation, largest, boards)
    return unpack(np.concatenate([layer.boards for layer in layers.values()]))


def _layers(formation: Formation, largest: int, boards: NDArray[np.uint8]) -> dict[int, _Layer]:
    """Return the boards that can follow some boards, by sum of tiles. A spawn raises the sum; a move keeps
    it."""
    layers: dict[int, _Layer] = {}
    found: defaultdict[int, list[NDArray[np.uint64]]] = defaultdict(list)
    _add(found, boards)
    while found:
        total = min(found)
        layers[total] = layer = _layer(formation, largest, np.unique(np.concatenate(found.pop(total))))
        for _, exponent, _, following in _following(formation, layer):
            found[total + (1 << exponent)].append(np.unique(following))
    return layers


def _totals(boards: NDArray[np.uint8]) -> NDArray[np.int64]:
    totals: NDArray[np.int64] = np.where(boards > 0, 1 << boards.astype(np.int64), 0).sum(axis=1)
    return totals


def _add(found: defaultdict[int, list[NDArray[np.uint64]]], boards: NDArray[np.uint8]) -> None:
    totals = _totals(boards)
    for total in np.unique(totals).tolist():
        found[total].append(pack(boards[totals == total]))


def _layer(formation: Formation, largest: int, packed: NDArray[np.uint64]) -> _Layer:
    boards = unpack(packed)
    after, _, legal = rules.afterstates(boards)
    kept, limits = list(formation.kept), formation.below_next
    still = (after[..., kept] == boards[:, None, kept]).all(axis=2)
    within = np.all([after[..., cell] <= largest - below for cell, below in limits.items()], axis=0)
    won = np.any(
        [
            np.all([after[..., cell] == largest - below for cell, below in goal.items()], axis=0)
            for goal in formation.goals
        ],
        axis=0,
    )
    allowed = legal & still & within
    return _Layer(packed, after, allowed & won, allowed & ~won)


def _following(
    formation: Formation, layer: _Layer
) -> Iterator[tuple[NDArray[np.bool_], int, float, NDArray[np.uint64]]]:
    """Yield four items for each cell and spawn: which moves leave the cell empty, the exponent, its share,
    and the boards with this tile."""
    for cell in formation.below_next:
        open_cell = layer.goes_on & (layer.after[..., cell] == 0)
        if open_cell.any():
            for exponent, share in SPAWNS:
                boards = layer.after[open_cell]
                boards[:, cell] = exponent
                yield open_cell, exponent, share, pack(boards)
