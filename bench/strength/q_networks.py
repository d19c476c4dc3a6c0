"""Plays games with Q-networks, with untrained networks and with a fixed order of moves.

    python bench/strength/q_networks.py checkpoints/published/dqn-*

All play the games of seed 1 on one view. A network with dropout plays twice: without dropout, and with active
dropout, since its authors never switched dropout off. Forty untrained networks, with the weights of seeds 1
to 40, play 100 games each; their interval is that of the forty averages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_client.evaluation.intervals import average_interval
from octofold_game.rules import legal_moves
from octofold_training import checkpoints
from octofold_training.games.playing import NetworkPlayer, play
from octofold_training.networks.build import build

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import report

ORDER = np.array([0, 3, 1, 2])
"""The fixed order of moves: up, left, right, down."""
UNTRAINED = {"kind": "q_network", "form": "simple", "value_scale": 20}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path, nargs="*", help="folder of a checkpoint")
    parser.add_argument(
        "--games", type=int, default=1000, help="games of each network (default: %(default)s)"
    )
    parser.add_argument(
        "--untrained", type=int, default=40, help="number of untrained networks (default: %(default)s)"
    )
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    figures: dict[str, Any] = {}

    def add(name: str, averaged: list[float]) -> None:
        average, interval = float(np.mean(averaged)), average_interval(averaged)
        figures[name] = {"average": average, "interval": interval}
        rows.append((name, f"{average:,.0f}", "{:,.0f} to {:,.0f}".format(*interval) if interval else ""))

    add("up, left, right, down", _scores(_in_order, options.games))
    averages = []
    for seed in range(1, options.untrained + 1):
        torch.manual_seed(seed)
        player = NetworkPlayer(build(UNTRAINED).eval(), UNTRAINED)
        averages.append(float(np.mean(_scores(player, -(-options.games // 10)))))
    if averages:
        add(f"{options.untrained} untrained networks", averages)
    for folder in options.checkpoint:
        checkpoint = checkpoints.load(folder)
        player = NetworkPlayer(checkpoint.network.eval(), checkpoint.architecture)
        add(folder.name, _scores(player, options.games))
        if checkpoint.architecture.get("form") == "dropout":
            torch.manual_seed(1)
            checkpoint.network.train()
            add(f"{folder.name}, dropout active", _scores(player, options.games))
    report("Q-networks", ("player", "average", "95% interval"), rows, games=options.games, **figures)


def _scores(player: Callable[[NDArray[np.uint8]], NDArray[np.uint8]], games: int) -> list[float]:
    return [float(game.score) for game in play(player, 1, range(games), games) if game is not None]


def _in_order(boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the first legal move of a fixed order."""
    moves: NDArray[np.uint8] = ORDER[legal_moves(boards)[:, ORDER].argmax(axis=1)].astype(np.uint8)
    return moves


if __name__ == "__main__":
    main()
