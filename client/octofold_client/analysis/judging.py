"""Asking a judge about the positions of finished games, a batch at a time."""

from collections.abc import Callable

import numpy as np

from octofold_client.analysis.endings import Verdicts
from octofold_client.analysis.trajectories import Positions
from octofold_client.contenders.judges import Judge


def readable(judge: Judge, positions: Positions) -> int:
    """How many of the positions the judge can be asked about: those within its largest exponent."""
    return int(np.count_nonzero(positions.boards.max(axis=1) <= judge.largest_exponent))


def judge_positions(
    judge: Judge,
    positions: Positions,
    verdicts: Verdicts,
    on_judged: Callable[[int], None] = lambda _: None,
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Asks about every position that the judge can read, and fills in `verdicts`.

    `on_judged` is called with the number of positions of each batch; `before_each` before each batch. What
    these raise ends the work, and the verdicts so far are kept.
    """
    rows = np.flatnonzero(positions.boards.max(axis=1) <= judge.largest_exponent)
    for start in range(0, len(rows), judge.boards_at_once):
        before_each()
        some = rows[start : start + judge.boards_at_once]
        verdicts.add(some, positions.made[some], judge.ask(positions.boards[some]))
        on_judged(len(some))
