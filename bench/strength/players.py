"""Measures how strong and how fast local players are.

    python bench/strength/players.py --games 20
    python bench/strength/players.py --games 40 --player expectimax:depth=6 --keep runs/players
    python bench/strength/players.py --games 100 --player minimax:milliseconds=100 --until 2048 --parallel 2

All players play the games of one seed, so their rows can be compared. The speed is in moves per second of CPU
time on one core, so that other programs disturb it little. After Ctrl-C, the same command continues the games
in the folder of `--keep`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from octofold_client.contenders.local_players import LocalContender, local_player
from octofold_client.errors import OctofoldError
from octofold_client.evaluation.report import rows_of
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation_run import Games, Players
from octofold_game.player_specs import make_player

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import report

PLAYERS = ("random", "montecarlo:runs=100", "minimax:depth=3", "expectimax:depth=2", "expectimax:depth=3")
SHOWN_TILES = (2048, 4096, 8192, 16384, 32768, 65536)


class Shortened(LocalContender):
    """A local player whose games also end when it makes the tile `until`; 0: no such tile."""

    def __init__(self, spec: str, until: int) -> None:
        local_player(spec)  # reports errors as the command line does
        made = make_player(spec)
        super().__init__(made.player, made.package_version, spec)
        self._until = until

    @property
    def largest_exponent(self) -> int:
        """The largest exponent that does not end a game."""
        largest = super().largest_exponent
        return min(largest, self._until.bit_length() - 2) if self._until else largest


def main() -> None:
    """Run the benchmark."""
    options = _options()
    results: dict[str, dict[str, Any]] = {}
    rows = []
    with tempfile.TemporaryDirectory() as nowhere:
        for spec in options.player or PLAYERS:
            name = re.sub(r"[^\w.=-]+", "_", spec) + f"-seed-{options.seed}-until-{options.until}"
            player = Shortened(spec, options.until)
            player.player.next_moves(np.ones((1, 16), np.uint8))  # compiles the player before it is timed
            with Players(local=[player]) as players:
                started = time.process_time()
                games = Games(options.games, options.seed, options.parallel)
                found = players.play(player, ResultFolder((options.keep or Path(nowhere)) / name), games)
                seconds = time.process_time() - started
            assert found.summary is not None
            average = rows_of(found.summary)[0][0]
            reached = {each.tile: f"{each.share:.0%}" for each in found.summary.reached}
            speed = found.run.moves / seconds if found.run and found.run.moves else None
            row = (spec, len(found.games), average.measured, average.interval)
            rows.append((*row, *(reached[tile] for tile in SHOWN_TILES), f"{speed:,.0f}" if speed else ""))
            results[spec] = {"moves_per_cpu_second": speed, "until": options.until, **found.summary.to_json()}
    until = f", which end with the tile {options.until}" if options.until else ""
    report(
        f"local players, {options.games} games of seed {options.seed}{until}",
        ["player", "games", "average", "95% interval", *map(str, SHOWN_TILES), "moves/CPU s"],
        rows,
        players=results,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    shipped = ", ".join(PLAYERS)
    parser.add_argument(
        "--player",
        action="append",
        metavar="SPEC",
        help=f"player to measure; repeatable (default: {shipped})",
    )
    parser.add_argument("--games", type=int, default=20, help="games per player (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    parser.add_argument("--parallel", type=int, default=64, help="games at a time (default: %(default)s)")
    parser.add_argument(
        "--until", type=int, default=0, metavar="TILE", help="tile that ends a game (default: none)"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder that keeps the games (default: none)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except OctofoldError as error:
        sys.exit(f"players.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
