"""`bench/operation/busy_tests.py` runs what `make test` runs, and names what failed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_test_that_fails_beside_other_work_is_named_and_counted(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    command = [
        sys.executable,
        str(ROOT / "bench" / "operation" / "busy_tests.py"),
        "--runs",
        "2",
        "--beside",
        "loops",
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MAKE"))}
    done = subprocess.run([*command, str(tmp_path)], env=kept, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    runs = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert [run["tests"] for run in runs] == [2, 2]
    assert all(len(run["failed"]) == 1 and run["failed"][0].endswith("::test_bad") for run in runs)
    assert "2 of 2" in done.stdout
