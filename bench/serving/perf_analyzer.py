"""Measures the server with Triton's load generator perf_analyzer: over gRPC, gRPC streams and REST.

    python bench/serving/perf_analyzer.py --perf-analyzer PATH/perf_analyzer

This benchmark downloads nothing. perf_analyzer 2.51.0 is in the folder `bin` of tritonclient's manylinux
wheel of that version (`pip download --no-deps tritonclient==2.51.0`, then unzip). It needs libb64.so.0d from
Debian's package libb64-0d and, even without a GPU, libcudart.so.12 from the wheel nvidia-cuda-runtime-cu12;
LD_LIBRARY_PATH must name their folders. The benchmark starts the server, which shares the cores with
perf_analyzer.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_client.rpc.local_server import LocalServer

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

BOARDS, LARGEST_EXPONENT = 256, 15
LIMIT_SECONDS = 300.0
COLUMNS = ("Server Queue", "Server Compute Infer", "p50 latency", "p99 latency")
"""Columns of perf_analyzer's table, in microseconds."""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--perf-analyzer", type=Path, required=True, help="path of the program")
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="model repository (default: %(default)s)"
    )
    parser.add_argument("--model", default="cnn5", help="model to call (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="boards in a call (default: %(default)s)")
    parser.add_argument("--callers", type=int, default=4, help="concurrent calls (default: %(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="length of one measurement; up to ten are made (default: %(default)s)",
    )
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        boards, rest_port = folder / "boards.json", folder / "rest-port"
        boards.write_text(json.dumps(input_data(played_boards(LARGEST_EXPONENT, BOARDS))))
        flags = ("--default-model", options.model, "--rest-port", "0", "--rest-port-file", str(rest_port))
        with LocalServer(options.models, flags) as server:
            rest = f"127.0.0.1:{rest_port.read_text().strip()}"
            protocols = {
                "gRPC": ("-i", "grpc", "-u", server.target),
                "gRPC, streams": ("-i", "grpc", "-u", server.target, "--streaming", "--async"),
                "REST": ("-i", "http", "-u", rest),
            }
            found = {
                protocol: measure(
                    *(options.perf_analyzer, options.model, options.batch, options.callers, options.seconds),
                    [*arguments, "--input-data", str(boards)],
                    folder / "out.csv",
                )
                for protocol, arguments in protocols.items()
            }
    rows = [
        (
            protocol,
            f"{float(row['Inferences/Second']):,.0f}",
            *(f"{float(row[c]) / 1e3:.2f}" for c in COLUMNS),
        )
        for protocol, row in found.items()
    ]
    report(
        f"perf_analyzer on {options.model}: {options.callers} callers of {options.batch} boards",
        ["protocol", "boards/s", *(f"{column}, ms" for column in COLUMNS)],
        rows,
        batch=options.batch,
        callers=options.callers,
        measured=found,
    )


def measure(
    program: Path, model: str, batch: int, callers: int, seconds: float, arguments: list[str], table: Path
) -> dict[str, str]:
    """Run perf_analyzer and return the only row of its table.

    Args:
        program: path of perf_analyzer.
        model: name of the model.
        batch: boards in a call.
        callers: concurrent calls.
        seconds: length of one measurement.
        arguments: further arguments of perf_analyzer.
        table: file that it writes its table to.

    Raises:
        SystemExit: perf_analyzer failed; the message is its output.
    """
    command = [str(program), "-m", model, "-b", str(batch), *arguments]
    command += ["--concurrency-range", str(callers), "-p", str(round(seconds * 1e3))]
    command += ["--stability-percentage", "20", "--verbose-csv", "-f", str(table)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if run.returncode != 0:
        raise SystemExit(f"{program} failed:\n{run.stdout}{run.stderr}")
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    return row


def input_data(boards: NDArray[np.uint8]) -> dict[str, list[object]]:
    """Boards `[N, 16]` in perf_analyzer's format; by default it sends random bytes, which are not boards."""
    return {"data": [{"boards": {"content": board.tolist(), "shape": [16]}} for board in boards]}


if __name__ == "__main__":
    main()
