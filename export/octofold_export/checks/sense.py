"""Detects a wrong description of a network by comparing its moves with those of a sensible player.

A correctly described network agrees with a sensible player far more often than chance, and more often than
under any other reading of its numbers. For four actions, all 24 orders are tried. For afterstate values, the
opposite sign and no value at all are tried. If the described reading is not the best, the export fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from octofold_game.model import Evidence
from octofold_game.player import Player
from octofold_game.rules import legal_moves

from octofold_export.checks.reference import Evaluate, PlainValue, plain_head
from octofold_export.description.description import ACTIONS, Description

_CERTAIN = 4.0  # standard errors; chance exceeds this once in about 30,000 exports

Hits = NDArray[np.float64]
"""`[N]`: 1 where a move equals the sensible player's, else 0; for chance, the probability of this."""


def summary(evidence: Evidence) -> str:
    """The evidence, as the end of a sentence whose subject is the network."""
    best = [f"{share:.1%} if {name}" for name, share in list(evidence.others.items())[:2]]
    return (
        f"agrees with {evidence.judge} on {evidence.agreement:.1%} of {evidence.boards:,} boards "
        f"(chance: {evidence.chance:.1%}; {', '.join(best)})"
    )


def weigh(description: Description, evaluate: Evaluate, boards: NDArray[np.uint8], judge: Player) -> Evidence:
    """Compare the network's moves on `boards` `[N, 16]` with those of `judge`."""
    legal = legal_moves(boards)
    boards, legal = boards[legal.sum(axis=1) > 1], legal[legal.sum(axis=1) > 1]
    expected = judge.next_moves(boards)
    readings = {
        name: (np.where(legal, scores, -np.inf).argmax(axis=1) == expected).astype(np.float64)
        for name, scores in _readings(description, evaluate, boards).items()
    }
    described, *_ = readings
    hits = readings.pop(described)
    others = dict(sorted(readings.items(), key=lambda reading: -reading[1].mean()))
    chance = 1 / legal.sum(axis=1)
    return Evidence(
        judge=judge.name,
        boards=len(boards),
        agreement=round(float(hits.mean()), 4),
        chance=round(float(chance.mean()), 4),
        others={name: round(float(other.mean()), 4) for name, other in others.items()},
        problem=_problem(hits, chance, others),
    )


def _readings(
    description: Description, evaluate: Evaluate, boards: NDArray[np.uint8]
) -> dict[str, NDArray[np.float64]]:
    """The scores `[N, 4]` under each reading; the described reading is first."""
    scores = plain_head(description, evaluate).scores(boards, 0)
    if description.answers.kind == "afterstate_value":
        rewards = PlainValue(_nothing, description.largest_exponent).scores(boards, 0)
        return {
            "as described": scores,
            "its values are ignored": rewards,
            "small values are good": 2 * rewards - scores,
        }
    numbers = scores[:, [ACTIONS.index(action) for action in description.answers.actions]]
    orders = {
        order: numbers[:, [order.index(action) for action in ACTIONS]] for order in permutations(ACTIONS)
    }
    described = {"as described": orders.pop(description.answers.actions)}
    return described | {f"the actions are {','.join(order)}": scores for order, scores in orders.items()}


def _nothing(views: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.zeros((len(views), 1))


def _problem(hits: Hits, chance: Hits, others: Mapping[str, Hits]) -> str | None:
    name, best = next(iter(others.items()))
    if _lead(best, hits) > _CERTAIN:
        return f"it makes more sense if {name}"
    if _lead(hits, chance) <= _CERTAIN:
        return "it plays no better than chance, as a network does that has hardly learned"
    if _lead(hits, best) <= _CERTAIN:
        return f"it makes as much sense if {name}"
    return None


def _lead(one: Hits, other: Hits) -> float:
    """The number of standard errors by which `one` agrees more often, board by board."""
    difference = one - other
    error = difference.std() / np.sqrt(len(difference))
    return float(difference.mean() / error) if error else 0.0
