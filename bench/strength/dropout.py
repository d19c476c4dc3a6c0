"""Plays a network with dropout active, as its authors did who never switched it off, and without.

    python bench/strength/dropout.py checkpoints/published/dqn-dropout --games 1000

Both play the games of seed 1 on one board. Dropout is active in all layers that have it, and drops anew at
every move.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from octofold_client.evaluation.intervals import average_interval
from octofold_training import checkpoints
from octofold_training.games.playing import NetworkPlayer, play

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--games", type=int, default=1000, help="(default: %(default)s)")
    options = parser.parse_args()
    checkpoint = checkpoints.load(options.checkpoint)
    if checkpoint.architecture.get("form") != "dropout":
        parser.error(f"the network of {options.checkpoint} has no dropout")
    torch.manual_seed(1)
    figures, rows = {}, []
    for active in (False, True):
        player = NetworkPlayer(checkpoint.network.train(active), checkpoint.architecture)
        games = [game for game in play(player, 1, range(options.games)) if game is not None]
        scores = [game.score for game in games]
        average = sum(scores) / len(scores)
        interval = average_interval(scores)
        reaches = sum(game.largest_tile >= 512 for game in games) / len(games)
        name = "active" if active else "off"
        figures[name] = {"average": average, "interval": interval, "reaches_512": reaches}
        between = "{:,.0f} to {:,.0f}".format(*interval) if interval else ""
        rows.append((name, f"{average:,.0f}", between, f"{reaches:.1%}"))
    columns = ("dropout", "average", "95% interval", "reaches 512")
    report(
        "dropout in play", columns, rows, checkpoint=str(options.checkpoint), games=options.games, **figures
    )


if __name__ == "__main__":
    main()
