"""Measures play logs: moves read, written, converted and served in shuffled order, per second of one core.

python bench/strength/play_logs.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.reading import SUFFIXES, read_log
from octofold_game.play_logs.shards import ShuffledMoves, convert
from octofold_game.play_logs.writing import log_writer
from octofold_game.rules import legal_moves, slide
from octofold_game.spawns import spawn

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

MOVES = 300_000


def late_moves(count: int) -> LoggedMoves:
    """Legal moves on random boards whose numbers are as long as those of late games."""
    generator = np.random.default_rng(0)
    boards = generator.integers(1, 14, (2 * count, 16)).astype(np.uint8)
    boards[np.arange(len(boards)), generator.integers(0, 16, len(boards))] = 0
    boards = boards[legal_moves(boards)[:, 3]][:count]
    moves = np.full(len(boards), 3, np.uint8)
    slid, _ = slide(boards, moves)
    grown = spawn(slid, generator.integers(0, 2**63, len(boards)).astype(np.uint64))
    return LoggedMoves(boards, moves, (grown != slid).argmax(axis=1).astype(np.uint8))


def rate(work: Callable[[], int]) -> float:
    """Moves per second of processor time, so that other programs count less."""
    start = time.process_time()
    moves = work()
    return moves / (time.process_time() - start)


def main() -> None:
    """Run the benchmark."""
    moves = late_moves(MOVES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def write(suffix: str) -> int:
            with log_writer(folder / f"moves{suffix}") as append:
                for start in range(0, len(moves), 1 << 16):
                    rows = slice(start, start + (1 << 16))
                    append(LoggedMoves(moves.boards[rows], moves.moves[rows], moves.cells[rows]))
            return len(moves)

        def read(suffix: str) -> int:
            return sum(len(some) for some in read_log(folder / f"moves{suffix}", print))

        def convert_text(numbers: list[int]) -> int:
            numbers.append(len(numbers))
            convert([folder / "moves.txt"], folder / f"shards-{len(numbers)}", print)
            return len(moves)

        def epoch() -> int:
            return sum(len(batch) for batch in ShuffledMoves(folder / "shards-1").batches(0, 1000))

        works: dict[str, Callable[[], int]] = {}
        for suffix in SUFFIXES:
            works[f"write {suffix}"] = partial(write, suffix)
            works[f"read {suffix}"] = partial(read, suffix)
        works["convert .txt, rules checked"] = partial(convert_text, [])
        works["batches of 1,000 in shuffled order"] = epoch
        found = medians(interleave({name: partial(rate, work) for name, work in works.items()}, rounds=5))
        rows = [(name, f"{value / 1e6:.2f}") for name, value in found.items()]
        report("play logs", ["work", "million moves/s a core"], rows, moves_per_second=found)


if __name__ == "__main__":
    main()
