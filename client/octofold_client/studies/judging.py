"""Asks a judge about the positions of finished games in batches."""

from collections.abc import Callable

import numpy as np
from octofold_game.trajectories import Positions

from octofold_client.contenders.judges import Judge
from octofold_client.studies.endings import Verdicts


def readable(judge: Judge, positions: Positions) -> int:
    """The number of positions that the judge can judge: those within its largest exponent."""
    return int(np.count_nonzero(positions.boards.max(axis=1) <= judge.largest_exponent))


def judge_positions(
    judge: Judge,
    positions: Positions,
    verdicts: Verdicts,
    on_judged: Callable[[int], None] = lambda _: None,
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Judge every position within the judge's largest exponent, and fill in `verdicts`.

    An exception from a callback ends the work and keeps the verdicts so far.

    Args:
        judge: judge to ask.
        positions: positions to judge.
        verdicts: verdicts to fill in.
        on_judged: called after each batch with its number of positions.
        before_each: called before each batch.
    """
    rows = np.flatnonzero(positions.boards.max(axis=1) <= judge.largest_exponent)
    for start in range(0, len(rows), judge.boards_at_once):
        before_each()
        some = rows[start : start + judge.boards_at_once]
        verdicts.add(some, positions.made[some], judge.ask(positions.boards[some]))
        on_judged(len(some))
