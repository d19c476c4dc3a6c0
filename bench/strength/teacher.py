"""Measures how strong an n-tuple network plays in this process, without a server.

    python bench/strength/teacher.py models/ntuple/2 --depth 1 --games 1000
    python bench/strength/teacher.py models/ntuple/2 --depth 2 --games 200

The depth counts the moves that the search looks ahead: depth 1 is called 1-ply elsewhere, and depth 2 is
called 3-ply. The games are those of `octofold evaluate` with the same seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_game.episodes import Episode, Episodes
from octofold_players.ntuple.player import NTuplePlayer
from rich.progress import track

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

LARGEST_EXPONENT = 15


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("teacher", type=Path, help="folder of an n-tuple network: of a run or of a model")
    parser.add_argument("--depth", type=int, default=1, help="moves to look ahead (default: 1)")
    parser.add_argument("--games", type=int, default=1000, help="number of games (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    options = parser.parse_args()

    player = NTuplePlayer(options.teacher, options.depth)
    episodes = Episodes(options.seed, range(options.games), LARGEST_EXPONENT)
    finished: list[Episode] = []
    moves = 0
    start = time.perf_counter()
    for _ in track(range(options.games), description=f"depth {options.depth}", transient=True):
        ended = len(finished)
        while len(finished) == ended and len(episodes.running):
            moves += len(episodes.running)
            finished += episodes.step(player.next_moves(episodes.boards))
    seconds = time.perf_counter() - start

    summary = Summary.of([GameSummary.of(episode) for episode in finished])
    rows = [("average", f"{summary.average:,.0f}"), ("median", f"{summary.median:,.0f}")]
    if summary.average_interval:
        rows.insert(1, ("95% interval", "{:,.0f} to {:,.0f}".format(*summary.average_interval)))
    rows += [("best", f"{summary.best:,}"), ("moves/s", f"{moves / seconds:,.0f}")]
    rows += [(f"reach {each.tile}", f"{each.share:.1%}") for each in summary.reached]
    report(
        f"teacher, depth {options.depth}, {options.games} games of seed {options.seed}",
        ["what", "figure"],
        rows,
        moves_per_second=moves / seconds,
        **summary.to_json(),
    )


if __name__ == "__main__":
    main()
