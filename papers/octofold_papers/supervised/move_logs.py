"""`octofold-papers moves`: shuffles play logs for imitation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octofold_game.play_logs.moves import CellReadings
from octofold_game.play_logs.reading import BadLine, log_files
from octofold_training.run.progress import ProgressLine, notice

from octofold_papers.supervised.shards import convert

if TYPE_CHECKING:
    from octofold_papers.flags import MovesFlags

_BAD_LINES_SHOWN = 20


def shuffle_moves(flags: MovesFlags) -> None:
    """Shuffle the logs into a new folder; print bad lines and the number of moves."""
    logs = [file for log in flags.logs for file in log_files(log)]
    read, bad_lines = 0, 0
    with ProgressLine() as line:

        def show(moves: int) -> None:
            nonlocal read
            read += moves
            line.show(f"{read / 1e6:.1f}M moves read")

        def report(bad: BadLine) -> None:
            nonlocal bad_lines
            bad_lines += 1
            if bad_lines <= _BAD_LINES_SHOWN:
                notice(f"left out: {bad}")

        sources = convert(logs, flags.out, report, show, seed=flags.seed)
    moves, bad = (sum(getattr(source, name) for source in sources) for name in ("moves", "bad_lines"))
    print(f"{flags.out}: {moves:,} moves (log files: {len(logs):,}; bad lines left out: {bad:,})")
    total = CellReadings.sum(source.last_field for source in sources)
    print(f"their last field can be the cell of: {total}")
