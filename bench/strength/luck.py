"""Measures the share of luck of the tiles in the variance of scores, and the cost of removing it.

"Left" is the variance of adjusted scores, divided by the variance of the scores. Its inverse, "worth", is how
many times as many games the same interval would take without the adjustment. The cost is CPU time of one
core.

    octofold play --model swift --games 200 --out results/swift
    python bench/strength/luck.py results/swift
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
from octofold_client.contenders.judges import Judge, local_judge
from octofold_client.evaluation.luck import AdjustedAverage, luck_in, luck_of_games
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import newest_version, report

_TIMED_GAMES = 20


def microseconds_a_move(folder: ResultFolder, values: Judge, start: float) -> float:
    """Return the CPU time for computing the luck of a move, in microseconds."""
    games = list(islice(folder.finished(), _TIMED_GAMES))
    luck_of_games(games[:1], values, start)  # compiles the code and fills the cache
    before = time.process_time()
    luck_of_games(games, values, start)
    return 1e6 * (time.process_time() - before) / sum(map(len, games))


def main() -> None:
    """Print the table."""
    options = _options()
    values = local_judge(f"ntuple:{options.values or newest_version(Path('models'), 'ntuple')}")
    rows, figures = [], []
    for path in options.folders:
        folder = ResultFolder(path)
        evaluation = Evaluation.of_folder(folder)
        luck = luck_in(folder, values).of([game.game for game in evaluation.games])
        scores = np.array([game.score for game in evaluation.games], np.int64)
        found = AdjustedAverage.of(scores, luck)
        if evaluation.summary is None or found is None:
            raise SystemExit(f"{path} has unfinished games or too few games")
        cost = microseconds_a_move(folder, values, luck.start)
        moves = evaluation.summary.moves_per_game
        rows.append(
            (
                evaluation.conditions.player,
                len(scores),
                _with_interval(evaluation.summary.average, evaluation.summary.average_interval),
                _with_interval(found.average, found.interval),
                f"{1 / found.worth:.2f}",
                f"{found.worth:.1f}",
                f"{1e-6 * cost * moves:.3f} s",
                f"{cost:.0f} us",
            )
        )
        figures.append(
            {
                "player": evaluation.conditions.player,
                "games": len(scores),
                "left": 1 / found.worth,
                "seconds_a_game": 1e-6 * cost * moves,
            }
        )
    report(
        f"luck, by the values of {values.name}",
        ["player", "games", "average", "without luck", "left", "worth", "a game", "a move"],
        rows,
        players=figures,
    )


def _with_interval(average: float, interval: tuple[float, float] | None) -> str:
    return f"{average:,.0f}" + ("" if interval is None else f" ({interval[0]:,.0f} to {interval[1]:,.0f})")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="result folders of finished evaluations")
    parser.add_argument("--values", type=Path, help="n-tuple network (default: the newest of models/ntuple)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
