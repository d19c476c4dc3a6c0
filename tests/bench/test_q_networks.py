"""`bench/strength/q_networks.py` plays Q-networks with and without dropout, and players that need no
training."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def test_the_published_network_plays_with_dropout_and_without() -> None:
    command = [sys.executable, str(ROOT / "bench" / "strength" / "q_networks.py")]
    command += [str(ROOT / "checkpoints" / "published" / "dqn-dropout"), "--games", "20", "--untrained", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    off, active = figures["dqn-dropout"]["average"], figures["dqn-dropout, dropout active"]["average"]
    assert 0 not in (off, active)
    assert off != active
    assert figures["up, left, right, down"]["average"] > 1000
    assert figures["2 untrained networks"]["average"] > 100
