"""Everything at once for a few seconds: no answer is wrong, every call ends, and nothing is left behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
KINDS_OF_CALL = 17
MODELS = 2


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_that_bore_everything_is_as_it_was_before(repository: Path, processes: int) -> None:
    short = "--minutes 0.15 --warm-seconds 5 --trouble-seconds 0.5 --callers 1"
    command = [
        sys.executable,
        str(ROOT / "bench" / "operation" / "soak.py"),
        "--models",
        str(repository),
        "--model",
        "small",
    ]
    done = subprocess.run(
        [*command, *short.split(), "--processes", str(processes)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["problems"], found["without_end"]) == ([], 0)
    assert found["before"]["ready_versions"] == found["after"]["ready_versions"] == MODELS
    assert len({end.partition(":")[0] for end in found["ends"]}) == KINDS_OF_CALL
    assert set(found["done"]) == {"reload", "unload", "load"} | ({"kill"} if processes > 1 else set())
