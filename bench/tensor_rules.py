"""Compares the rules in plain tensor operations with those by table lookup: boards per second.

python bench/tensor_rules.py [--device cuda]
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import torch
from harness import interleave, medians, report
from octofold_training.games.environment import MoveTable, Rules
from octofold_training.games.tensor_rules import TensorRules

SIZES = (1, 1_000, 100_000)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    torch.manual_seed(0)
    boards = torch.randint(0, 12, (max(SIZES), 16), dtype=torch.uint8, device=device)
    moves = torch.randint(0, 4, (max(SIZES),), device=device)

    def rate(rules: Rules, size: int) -> float:
        """Of a legality check and a slide of `size` boards."""
        repeats = max(3, 300_000 // (size + 1000))
        _wait(device)
        start = time.perf_counter()
        for _ in range(repeats):
            rules.legal(boards[:size])
            rules.slide(boards[:size], moves[:size])
        _wait(device)
        return size * repeats / (time.perf_counter() - start)

    both: dict[str, Rules] = {"tensor operations": TensorRules(device), "tables": MoveTable(device)}
    works = {
        f"{name}, {size:,}": partial(rate, rules, size) for name, rules in both.items() for size in SIZES
    }
    found = medians(interleave(works, rounds=5))
    rows = [(name, f"{value:,.0f}") for name, value in found.items()]
    report("rules on tensors", ["rules, boards at a time", "boards/s"], rows, boards_per_second=found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
