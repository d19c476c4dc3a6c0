"""Everything at once for a while: no answer is wrong, every call ends, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[3] / "bench" / "soak.py"


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_that_bore_everything_is_as_it_was_before(repository: Path, processes: int) -> None:
    flags = ["--minutes", "0.4", "--trouble-seconds", "1", "--callers", "1", "--processes", str(processes)]
    command = [sys.executable, str(SOAK), *flags, "--models", str(repository), "--model", "small"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["calls"] > 0
    assert set(found["done"]) == {"reload", "unload", "load"} | ({"kill"} if processes > 1 else set())
