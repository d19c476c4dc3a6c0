"""Measures the gymnasium environments: moves per second of single ones in a loop, and of the vector one.

python bench/strength/environment.py
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from octofold_game.environments.single import ENVIRONMENT_ID

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

SIZES = (1, 16, 256, 4_096)
SECONDS = 1.0
MODES = ("sync", "vector_entry_point")


def main() -> None:
    """Run the benchmark."""
    random = np.random.default_rng(0)
    measures = {
        f"{mode} {size}": partial(
            rate, gymnasium.make_vec(ENVIRONMENT_ID, num_envs=size, vectorization_mode=mode), random
        )
        for size in SIZES
        for mode in MODES
    }
    found = medians(interleave(measures, rounds=3))
    rows = []
    for size in SIZES:
        single, vector = (found[f"{mode} {size}"] for mode in MODES)
        rows.append((f"{size:,}", f"{single:,.0f}", f"{vector:,.0f}", f"{vector / single:.1f}"))
    columns = ["games at once", "SyncVectorEnv, moves/s", "vector environment, moves/s", "ratio"]
    report("gymnasium environments, random legal moves", columns, rows, moves_per_second=found)


def rate(envs: Any, random: np.random.Generator) -> float:
    """Moves per second, in CPU time of this process."""
    _, info = envs.reset(seed=0)
    moves, start = 0, time.process_time()
    while (spent := time.process_time() - start) < SECONDS:
        wishes = random.random((envs.num_envs, 4))
        _, _, _, _, info = envs.step((wishes * info["action_mask"]).argmax(axis=1))
        moves += envs.num_envs
    return moves / spent


if __name__ == "__main__":
    main()
