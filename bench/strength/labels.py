"""Measures how good a teacher's labels are, beside the moves of a student that learned from them.

    python bench/strength/labels.py checkpoints/flagship --teacher models/ntuple/2

The teacher's and the student's games run side by side, as in training. Then the boards of both are labeled
one, two and three moves deep. The regret of a player is what its moves fall short of the best, in points of
the deepest values; of each move at most `LARGEST_REGRET`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from octofold_game.bitboards import unpack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch
from octofold_training import checkpoints
from octofold_training.games.positions import PositionPool
from octofold_training.learners.distil import LARGEST_REGRET
from octofold_training.networks.encoding import OneHot

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

DEPTHS = (1, 2, 3)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("student", type=Path, help="folder of a checkpoint")
    parser.add_argument("--teacher", type=Path, default=Path("models/ntuple/2"), help="an n-tuple network")
    parser.add_argument("--games", type=int, default=8192, help="an even number (default: %(default)s)")
    parser.add_argument("--moves", type=int, default=250, help="of each game before (default: %(default)s)")
    options = parser.parse_args()
    teacher, student = NTupleNetwork.load(options.teacher), checkpoints.load(options.student)
    network = student.network.eval()
    one_hot = OneHot(student.architecture["exponents"], torch.float32)

    @torch.no_grad()
    def moves_of_student(boards: NDArray[np.uint64], values: NDArray[np.float32]) -> NDArray[np.int8]:
        logits = network(one_hot(torch.from_numpy(unpack(boards)))).numpy()
        preferences = np.where(np.isfinite(values), logits, -np.inf)
        moves: NDArray[np.int8] = preferences.argmax(axis=1).astype(np.int8)
        return moves

    pool = PositionPool(options.games, 1, seed=1)
    pool.warm_up(teacher)
    for _ in range(options.moves):
        values = teacher.action_values(pool.batch())
        pool.advance(values.argmax(axis=1).astype(np.int8), moves_of_student(pool.batch(), values))

    boards = pool.batch()
    labels = {depth: NTupleSearch(teacher, depth).values(boards) for depth in DEPTHS}
    players = {f"labels {depth} deep": labels[depth].argmax(axis=1) for depth in DEPTHS[:-1]}
    players["the student"] = moves_of_student(boards, labels[1].astype(np.float32))
    half = options.games // 2
    places = {"the teacher's boards": slice(half), "the student's boards": slice(half, None)}
    rows, figures = [], {}
    for place, chosen in places.items():
        best = labels[DEPTHS[-1]][chosen]
        for player, moves in players.items():
            regret = np.minimum(best.max(axis=1) - best[np.arange(len(best)), moves[chosen]], LARGEST_REGRET)
            mean, error = float(regret.mean()), 1.96 * float(regret.std()) / np.sqrt(len(regret))
            agreement = float((moves[chosen] == best.argmax(axis=1)).mean())
            rows.append((place, player, f"{mean:.0f} ± {error:.0f}", f"{agreement:.1%}"))
            figures[f"{player}, {place}"] = {"regret": mean, "error": error, "agreement": agreement}
    columns = ("boards", "moves of", "regret, points", "moves as 3 deep")
    report(f"moves judged {DEPTHS[-1]} deep", columns, rows, **figures)


if __name__ == "__main__":
    main()
