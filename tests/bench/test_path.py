"""A board takes a straight way through server and client: `bench/serving/path.py` counts changes of file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MOST = {"NextMove": 14, "NextMoves": 14, "ModelInfer": 16, "REST": 23, "evaluate": 16}
"""REST also asks whose page a browser shows, and it waits for an answer as the page does. An evaluation makes
the moves of its games between two answers."""
SLACK = 2
"""On a busy machine, another thread may come in between on every path."""


def test_a_call_changes_files_some_15_times_from_the_wire_to_its_reply() -> None:
    command = [sys.executable, str(ROOT / "bench" / "serving" / "path.py"), "--model", "swift"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    changes = json.loads(done.stdout.splitlines()[-1])["changes"]
    assert changes.keys() == MOST.keys()
    assert all(0 < changes[kind] <= most + SLACK for kind, most in MOST.items()), changes
