"""`bench/strength/dropout.py` plays the published network that has dropout, with it and without."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def test_the_published_network_plays_with_dropout_and_without() -> None:
    checkpoint = ROOT / "checkpoints" / "published" / "dqn-dropout"
    command = [sys.executable, str(ROOT / "bench" / "strength" / "dropout.py"), str(checkpoint)]
    done = subprocess.run([*command, "--games", "2"], capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["off"]["average"] > 0
    assert figures["active"]["average"] not in (0, figures["off"]["average"])
