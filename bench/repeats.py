"""Counts how often an evaluation asks for a board again, and so how much a cache could save.

    octofold play --games 100 --out results/repeats && python bench/repeats.py results/repeats/games.replay

The games of a replay file are replayed in lockstep, one board of each game at a time, the way evaluation asks
for them. The table shows the share of boards that a cache of the most recent boards would hold, exactly and
as any of the eight symmetric views, and the share of boards that occur more than once in a step.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from pathlib import Path

import numpy as np
from harness import report
from numpy.typing import NDArray
from octofold_game.replays import read_replays
from octofold_game.rules import slide
from octofold_game.symmetries import CELLS

SIZES = (1 << 12, 1 << 16, 1 << 20)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("replays", type=Path, help="replay file of an evaluation")
    options = parser.parse_args()
    steps = _steps(options.replays)
    asked = sum(map(len, steps))
    rows, figures = [], {}
    for name, keys in (
        ("exactly", [_packed(boards) for boards in steps]),
        ("as any of the eight views", [_canonical(boards) for boards in steps]),
    ):
        rates = {size: _hits(keys, size) / asked for size in SIZES}
        twice = sum(len(of_step) - len(set(of_step)) for of_step in keys) / asked
        rows.append((name, *(f"{rate:.2%}" for rate in rates.values()), f"{twice:.2%}"))
        figures[name] = {"known": rates, "twice": twice}
    columns = ["the same board", *(f"among {size:,}" for size in SIZES), "repeated in a step"]
    report(f"repeats in {asked:,} boards of {len(steps[0])} games", columns, rows, boards=asked, **figures)


def _hits(steps: list[list[bytes]], size: int) -> int:
    """The number of boards found in a cache of the `size` most recent ones."""
    kept: OrderedDict[bytes, None] = OrderedDict()
    hits = 0
    for of_step in steps:
        for key in of_step:
            hits += key in kept
            kept[key] = None
            kept.move_to_end(key)
            if len(kept) > size:
                kept.popitem(last=False)
    return hits


def _steps(path: Path) -> list[NDArray[np.uint8]]:
    """The boards `[N, 16]` of the running games at every step."""
    episodes = sorted(read_replays(path), key=len, reverse=True)
    boards = np.array([episode.start for episode in episodes])
    steps = []
    for step in range(len(episodes[0])):
        running = sum(len(episode) > step for episode in episodes)  # sorted by length, so they come first
        boards = boards[:running]
        steps.append(boards.copy())
        made = np.array([episode.moves[step] for episode in episodes[:running]], dtype=np.uint8)
        boards, _ = slide(boards, made & 3)
        boards[np.arange(running), made >> 2 & 15] = 1 + (made >> 6)
    return steps


def _packed(boards: NDArray[np.uint8]) -> list[bytes]:
    return [board.tobytes() for board in boards]


def _canonical(boards: NDArray[np.uint8]) -> list[bytes]:
    """The smallest of each board's views."""
    views = boards[:, CELLS]
    return [min(view.tobytes() for view in of_board) for of_board in views]


if __name__ == "__main__":
    main()
