"""`bench/strength/players.py` plays the games that it reports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SCRIPT = str(Path(__file__).parents[2] / "bench" / "strength" / "players.py")


def test_games_end_with_the_requested_tile(tmp_path: Path) -> None:
    command = [
        sys.executable,
        SCRIPT,
        "--player",
        "random",
        "--games",
        "8",
        "--until",
        "32",
        "--keep",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = json.loads(done.stdout.splitlines()[-1])["players"]["random"]
    assert [(each["tile"], each["games"]) for each in row["largest_tiles"]] == [(32, 8)]
    assert row["moves_per_cpu_second"] > 0
