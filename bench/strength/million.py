"""What follows a million games: `octofold report` and `octofold merge`, their time and their memory.

    python bench/strength/million.py

The games are made up: random moves with plausible scores, because no report looks at single moves. They are
written as four slices, which `report` and `merge` read as they would read played ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from octofold_client.evaluation.result_folder import Conditions, ResultFolder
from octofold_client.evaluation.slices import Slice
from octofold_game.episodes import Episode
from octofold_game.replays import ReplayWriter
from octofold_game.system.files import write_text

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

SLICES = 4
COMMAND = "import sys; from octofold_client.cli import main; sys.exit(main())"


def write_slice(folder: ResultFolder, part: Slice, moves: int) -> None:
    """Write the games of a slice, of about `moves` moves each, and a result without a run."""
    random = np.random.default_rng(part.number)
    folder.path.mkdir()
    folder.write_conditions(Conditions("made up", "1", "fp32", "ab" * 32, 0, part))
    start = np.array([1, 1] + [0] * 14, np.uint8)
    with ReplayWriter(folder.replays) as writer:
        for game in part.range:
            length = 1 + int(random.poisson(moves))
            final = np.array([int(random.integers(7, 16))] + [0] * 15, np.uint8)
            score = 4 * int(random.gamma(3.0, 3000.0))
            writer.append(
                Episode(game, 0, 17, start, random.bytes(length).translate(_SEVEN_BITS), score, final)
            )

    write_text(folder.result, '{"schema": 2, "run": null, "card": null}')


_SEVEN_BITS = bytes(byte & 0x7F for byte in range(256))


def measured(*arguments: str | Path) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory in MB of `octofold` with these arguments."""
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"octofold {arguments[0]} failed")
    return {
        "seconds": time.monotonic() - started,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6,
    }


def main() -> None:
    """Write the games, and measure both commands on them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=1_000_000)
    parser.add_argument("--moves", type=int, default=60, help="moves of a game on average")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folders = []
        for number in range(1, SLICES + 1):
            folder = ResultFolder(Path(name) / str(number))
            write_slice(folder, Slice(number, SLICES, options.games), options.moves)
            folders.append(folder.path)
        merged = Path(name) / "merged"
        figures = {
            "merge": measured("merge", *folders, "--out", merged),
            "report": measured("report", merged, "--parquet"),
        }
        sizes = {path.name: path.stat().st_size / 1e6 for path in sorted(merged.iterdir())}
    rows = [
        (command, f"{each['seconds']:.0f} s", f"{each['cpu_seconds']:.0f} s", f"{each['peak_mb']:,.0f} MB")
        for command, each in figures.items()
    ]
    title = f"after {options.games:,} games"
    report(title, ("command", "time", "CPU", "peak memory"), rows, games=options.games, **figures, mb=sizes)


if __name__ == "__main__":
    main()
