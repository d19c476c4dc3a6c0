"""Measures how far apart a network's answers for the moves of a board are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import legal_moves

from octofold_export.checks.reference import Evaluate, Numbers, plain_head, softmax
from octofold_export.description.description import Description
from octofold_export.graph.heads import POINTS, PROBABILITIES, Spread

_TIE_OF_SPREAD = 2.0**-16
_TIE_OF_SIZE = 2.0**-20  # some rounding errors of float32
_DIGITS = 3  # of the temperature


def measured_spread(description: Description, evaluate: Evaluate, boards: NDArray[np.uint8]) -> Spread:
    """Measure the spread on `boards` `[M, 16]`, each seen as it is.

    The temperature of values is the standard deviation of a board's legal moves, in the median over boards. A
    tie is small compared to it, and as large as the rounding errors of numbers of the network's size.
    """
    legal = legal_moves(boards)
    boards, legal = boards[legal.sum(axis=1) > 1], legal[legal.sum(axis=1) > 1]
    scores = plain_head(description, evaluate).scores(boards, 0)
    policy = description.answers.kind.startswith("policy")
    worth = softmax(np.where(legal, scores, -np.inf)) if policy else scores
    worth = np.where(legal & np.isfinite(worth), worth, np.nan)
    deviation = np.nanstd(worth, axis=1)
    apart: Numbers = deviation[deviation > 0]
    if not len(apart):  # it answers every board with equal numbers
        return PROBABILITIES if policy else POINTS
    spread = float(np.median(apart))
    size = float(np.median(np.nanmax(np.abs(worth), axis=1)))
    tie = spread * _TIE_OF_SPREAD + size * _TIE_OF_SIZE
    temperature = 1.0 if policy else float(f"{spread:.{_DIGITS}g}")
    return Spread(temperature, float(f"{tie:.{_DIGITS}g}"))
