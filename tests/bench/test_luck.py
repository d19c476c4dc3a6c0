"""`bench/strength/luck.py` measures the remaining variance and the cost of computing luck."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import octofold
from support.shipped import newest

pytestmark = pytest.mark.long  # plays games and compiles

ROOT = Path(__file__).parents[2]


def test_the_bench_measures_the_remaining_variance(tmp_path: Path) -> None:
    values = f"ntuple:{newest('ntuple')}"
    played = octofold("evaluate", "--player", values, "--games", "30", "--luck", "none", "--out", tmp_path)
    assert played.returncode == 0, played
    bench = [str(ROOT / "bench" / "strength" / "luck.py"), str(tmp_path)]
    done = subprocess.run([sys.executable, *bench], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (player,) = found["players"]
    assert player["games"] == 30
    assert 0.1 < player["left"] < 0.9
    assert player["seconds_a_game"] > 0
