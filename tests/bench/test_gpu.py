"""`bench/gpu.py` on a machine without a GPU: every part ends in figures or in a line that says why not."""

import ctypes
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from gpu_parts import Part, isolated, run_all

ROOT = Path(__file__).parents[2]
FINE = Part("fine", partial(dict, boards=1.0))


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.timeout(300)
@pytest.mark.skipif(has_driver(), reason="this machine has a GPU: run bench/gpu.py itself")
def test_one_command_measures_what_a_cpu_can_and_says_what_the_rest_lacks(tmp_path: Path) -> None:
    small = "--seconds 0.1 --boards 64 --batches 1,8 --processes 2 --model swift --variant fp16"
    loads = "--load packed:64/2 --load stream/2 --load unary/2"
    command: list[str | Path] = [
        sys.executable,
        ROOT / "bench/gpu.py",
        *small.split(),
        "--variant",
        "fp16 by TensorRT",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command += loads.split()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["figures"]["check: swift, fp16"]["boards of games: agreement"] > 0.95
    assert figures["figures"]["direct: swift, fp16"]["batch 8: boards/s"] > 0
    for form in ("packed:64/2", "stream/2", "unary/2"):
        assert figures["figures"]["served: swift, fp16"][f"{form}: boards/s"] > 0
        assert figures["figures"]["processes: swift, fp16, 2"][f"{form}: p99 ms"] > 0
    assert figures["figures"]["latency: swift, fp16"]["unary/1: p50 ms"] > 0
    assert figures["figures"]["memory: swift, host"]["host: resident MB"] > 20
    for kind in ("check", "direct", "served"):
        assert figures["errors"][f"{kind}: swift, fp16 by TensorRT"].startswith("no CUDA: ")
    assert figures["errors"]["memory: swift, GPU"].startswith("no CUDA: ")
    assert list(tmp_path.iterdir()) == []


def test_parts_that_raise_or_crash_are_named_and_the_others_go_on() -> None:
    parts = [
        Part("raises", partial(int, "x")),  # type: ignore[arg-type]
        FINE,
        Part("crashes", partial(os._exit, 7)),
        Part("with a GPU", FINE.run, needs_gpu=True),
        Part("fine, too", FINE.run),
    ]
    found, errors = run_all(parts, "there is none", seconds=0)
    assert found == {"fine": {"boards": 1.0}, "fine, too": {"boards": 1.0}}
    assert errors == {
        "raises": "ValueError: invalid literal for int() with base 10: 'x'",
        "crashes": "its process ended with exit code 7",
        "with a GPU": "no CUDA: there is none",
    }


def test_a_part_that_hangs_is_stopped() -> None:
    with pytest.raises(RuntimeError, match="stopped: it took more than 1 seconds"):
        isolated(partial(time.sleep, 60), 1.0)  # type: ignore[arg-type]


def test_no_part_begins_when_the_time_is_over() -> None:
    found, errors = run_all([FINE, FINE], None, seconds=1e-9)
    assert (found, errors) == ({}, {"fine": "not begun: the time was over"})


def interrupted(part: Part) -> Part:
    """The part, whose start is met by Ctrl-C."""

    class Ctrl:
        def __reduce__(self) -> str:
            raise KeyboardInterrupt

    return Part(part.name, partial(print, Ctrl()))  # type: ignore[arg-type]


def test_after_ctrl_c_the_figures_so_far_are_kept() -> None:
    found, errors = run_all([FINE, interrupted(Part("second", FINE.run)), Part("third", FINE.run)], None, 0)
    assert found == {"fine": {"boards": 1.0}}
    assert errors == {"second": "interrupted", "third": "not begun: interrupted"}
