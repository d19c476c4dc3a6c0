"""Measures the rules in numpy: afterstates per second in batches of several sizes.

python bench/strength/rules.py
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from octofold_game import rules

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

SIZES = (1, 100, 1_000, 10_000)


def main() -> None:
    """Run the benchmark."""
    generator = np.random.default_rng(0)
    boards = {size: generator.integers(0, 12, (size, 16)).astype(np.uint8) for size in SIZES}

    def rate(size: int) -> float:
        repeats = max(3, 20_000 // size)
        start = time.perf_counter()
        for _ in range(repeats):
            rules.afterstates(boards[size])
        return 4 * size * repeats / (time.perf_counter() - start)

    found = medians(interleave({str(size): partial(rate, size) for size in SIZES}, rounds=7))
    rows = [(f"{int(size):,}", f"{value / 1e6:.2f}") for size, value in found.items()]
    report("rules", ["boards in a batch", "million afterstates/s"], rows, afterstates_per_second=found)


if __name__ == "__main__":
    main()
