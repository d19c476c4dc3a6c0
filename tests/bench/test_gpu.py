"""`bench/gpu/gpu.py` without a GPU: every part gives figures or the reason why it cannot."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, str(ROOT / "bench" / "gpu" / "gpu.py")]
SMALL = "--model swift --seconds 0.1 --boards 64 --batches 1,8"
QUICK = f"{SMALL} --device cpu --variant fp32 --load unary/2".split()
CHECK, DIRECT, SERVED = (f"{kind}: swift, fp32" for kind in ("check", "direct", "served"))


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has a GPU: run bench/gpu/gpu.py itself")
def test_the_bench_measures_a_cpu_and_says_what_the_other_parts_lack(tmp_path: Path) -> None:
    flags = f"{SMALL} --variant fp16 --load packed:64/2 --load stream/2 --load unary/2"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [*COMMAND, *flags.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["figures"]["check: swift, fp16"]["boards of games: agreement"] > 0.95
    assert figures["figures"]["direct: swift, fp16"]["batch 8: boards/s"] > 0
    for form in ("packed:64/2", "stream/2", "unary/2"):
        assert figures["figures"]["served: swift, fp16"][f"{form}: boards/s"] > 0
    assert figures["figures"]["latency: swift, fp16"]["unary/1: p50 ms"] > 0
    assert figures["errors"] == {}
    assert figures["no_cuda"]
    assert list(tmp_path.iterdir()) == []


def measured(*flags: str, at: str = "", do: Callable[[int], object] = int) -> dict[str, Any]:
    """Return the JSON of a quick run. When part number `at` begins, call `do` with the id of the process."""
    with subprocess.Popen(
        [*COMMAND, *QUICK, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        while at and not running.stderr.readline().startswith(f"[{at}/"):
            pass
        do(running.pid)
        output, _ = running.communicate()
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


def parts(*kinds: str) -> list[str]:
    return [word for kind in kinds for word in ("--part", kind)]


def kill_part(process: int) -> None:
    """Kill the process of the running part."""
    while True:
        for child in psutil.Process(process).children():
            if any("spawn_main" in word for word in child.cmdline()):  # not Python's resource tracker
                return child.kill()
        time.sleep(0.01)


def test_a_failed_part_is_named_and_the_others_continue() -> None:
    run = measured(*parts("check", "served", "direct"), "--flags=--no-such-flag")
    assert run["figures"].keys() == {CHECK, DIRECT}
    assert "no option --no-such-flag" in run["errors"][SERVED]


def test_a_crashed_part_is_named_and_the_others_continue() -> None:
    run = measured(*parts("check", "direct"), at="1", do=kill_part)
    assert run["errors"] == {CHECK: "its process ended with exit code -9"}
    assert run["figures"].keys() == {DIRECT}


def test_after_ctrl_c_the_figures_so_far_are_kept() -> None:
    run = measured(
        *parts("check", "direct", "served"), at="2", do=lambda process: os.kill(process, signal.SIGINT)
    )
    assert run["figures"].keys() == {CHECK}
    assert run["errors"] == {DIRECT: "interrupted", SERVED: "not started: interrupted"}
