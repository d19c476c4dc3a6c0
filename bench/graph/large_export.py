"""Exports a large ONNX file, and prints the memory and the time of each step.

    python bench/graph/large_export.py                     # a file of 500 MB
    python bench/graph/large_export.py --megabytes 100

The file is a dense network with random weights, so it plays at random. What counts is the peak of the
export's resident memory against the size of the file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

_PAUSE_SECONDS = 0.02
_MB = 1_000_000


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500, help="size of the file (default: %(default)s)")
    parser.add_argument("flags", nargs="*", help="more flags for octofold-export, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.onnx"
        write_network(file, options.megabytes * _MB)
        command = [sys.executable, "-m", "octofold_export.cli", "--onnx", str(file), "--name", "large"]
        command += ["--models", str(Path(folder) / "models"), "--answer", "policy_logits"]
        steps, seconds, code = measure([*command, *options.flags])
        size = file.stat().st_size / _MB
    peak = max(megabytes for _, _, megabytes in steps)
    rows = [
        (f"{at:.0f}", f"{megabytes:,.0f}", f"{megabytes / size:.1f}", line) for line, at, megabytes in steps
    ]
    report(
        f"export of {size:,.0f} MB",
        ["second", "peak of the step, MB", "times the file", "the step that ends here"],
        rows,
        megabytes=round(size),
        peak=round(peak),
        times=round(peak / size, 2),
        seconds=round(seconds),
        exit_code=code,
    )


def write_network(file: Path, size: int) -> None:
    """A dense network with two hidden layers, whose weights take `size` bytes."""
    width = int((-260 + (260**2 + size) ** 0.5) / 2) * 1  # width² + 260 width = size / 4
    rng = np.random.default_rng(1)
    shapes = (256, width), (width, width), (width, 4)
    nodes = [helper.make_node("Flatten", ["planes"], ["x0"])]
    weights = []
    for number, shape in enumerate(shapes):
        values = rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        end = "logits" if number == len(shapes) - 1 else f"y{number}"
        nodes.append(helper.make_node("MatMul", [f"x{number}", f"w{number}"], [end]))
        if end != "logits":
            nodes.append(helper.make_node("Relu", [end], [f"x{number + 1}"]))
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("planes", TensorProto.FLOAT, ["N", 16, 4, 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 4])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), file)


def measure(command: list[str]) -> tuple[list[tuple[str, float, float]], float, int]:
    """Run a command: its lines, with the second and the peak in megabytes since the last; seconds; code."""
    began = time.monotonic()
    steps: list[tuple[str, float, float]] = []
    peak = 0.0
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        ended = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.wait(_PAUSE_SECONDS):
                peak = max(peak, resident(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert process.stderr is not None
        for line in process.stderr:
            steps.append((line.strip(), time.monotonic() - began, peak))
            print(f"{time.monotonic() - began:5.0f} s {peak:8,.0f} MB  {line.strip()}", file=sys.stderr)
            peak = 0.0
        code = process.wait()
        ended.set()
        watcher.join()
    steps.append(("(end)", time.monotonic() - began, peak))
    return steps, time.monotonic() - began, code


def resident(process: int) -> float:
    """Resident memory of a process, in megabytes."""
    try:
        return float(psutil.Process(process).memory_info().rss / _MB)
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    main()
