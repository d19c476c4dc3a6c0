"""Measures how strong and how fast local players are.

    python bench/players.py --games 20
    python bench/players.py --games 100 --player expectimax:depth=3 --player ntuple:runs/teacher,depth=2

All players play the games of one seed, so their rows can be compared. The games of a row run in lockstep on
all cores. Ctrl-C ends the benchmark and shows the finished rows. To keep the games, use
`octofold evaluate --player`.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from typing import Any

from harness import report
from octofold_client.contenders.player_specs import local_player
from octofold_client.evaluation.report import rows_of
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_game.episodes import Episode, Episodes

PLAYERS = (
    "random",
    "montecarlo:runs=20",
    "montecarlo:runs=100",
    "minimax:depth=3",
    "minimax:depth=5",
    "expectimax:depth=1",
    "expectimax:depth=2",
    "expectimax:depth=3",
)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--player",
        action="append",
        metavar="SPEC",
        help="player to measure; may be repeated (default: " + ", ".join(PLAYERS) + ")",
    )
    parser.add_argument("--games", type=int, default=20, help="games per player (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    options = parser.parse_args()

    results: dict[str, dict[str, Any]] = {}
    rows = []
    with suppress(KeyboardInterrupt):
        for spec in options.player or PLAYERS:
            print(spec, file=sys.stderr)
            summary, moves_per_second = _play(spec, options.games, options.seed)
            average = rows_of(summary)[0][0]
            reached = {each.tile: f"{each.share:.0%}" for each in summary.reached}
            row = (spec, average.measured, average.interval, reached[2048], reached[8192])
            rows.append((*row, f"{moves_per_second:,.0f}"))
            results[spec] = {"moves_per_second": moves_per_second, **summary.to_json()}
    report(
        f"local players, {options.games} games of seed {options.seed}",
        ["player", "average", "95% interval", "reach 2048", "reach 8192", "moves/s"],
        rows,
        players=results,
    )


def _play(spec: str, games: int, seed: int) -> tuple[Summary, float]:
    contender = local_player(spec)
    episodes = Episodes(seed, range(games), contender.largest_exponent)
    contender.player.next_moves(episodes.boards)  # compiles the player before it is timed
    finished: list[Episode] = []
    start = time.perf_counter()
    while len(episodes.running):
        finished += episodes.step(contender.player.next_moves(episodes.boards))
    seconds = time.perf_counter() - start
    return Summary.of([GameSummary.of(episode) for episode in finished]), sum(map(len, finished)) / seconds


if __name__ == "__main__":
    main()
