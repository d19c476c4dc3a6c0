"""The service under Triton's own load generator, perf_analyzer: over gRPC, its streams, and REST.

    python bench/perf_analyzer.py --perf-analyzer PATH/perf_analyzer

This program downloads nothing. perf_analyzer 2.51.0 is in `bin` of tritonclient's manylinux wheel of that
version (`pip download --no-deps tritonclient==2.51.0`, then unzip). It needs libb64.so.0d, of Debian's
package libb64-0d, and libcudart.so.12, of the wheel nvidia-cuda-runtime-cu12, even where there is no GPU;
name their folders in LD_LIBRARY_PATH. It runs on the same cores as the service, which is started for it.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import tempfile
from pathlib import Path

from harness import report
from octofold_client.local_server import LocalServer
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves

BOARDS = 256
LIMIT_SECONDS = 300.0
COLUMNS = ("Server Queue", "Server Compute Infer", "p50 latency", "p99 latency")
"""Of perf_analyzer's table, in microseconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--perf-analyzer", type=Path, required=True, help="the program")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="cnn5")
    parser.add_argument("--batch", type=int, default=16, help="boards in a call")
    parser.add_argument("--callers", type=int, default=4, help="calls at the same time")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement; it takes up to ten")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        boards, rest_port = folder / "boards.json", folder / "rest-port"
        boards.write_text(json.dumps(_input(BOARDS)))
        flags = ("--default-model", options.model, "--rest-port", "0", "--rest-port-file", str(rest_port))
        with LocalServer(options.models, flags) as server:
            rest = f"127.0.0.1:{rest_port.read_text().strip()}"
            protocols = {
                "gRPC": ("-i", "grpc", "-u", server.target),
                "gRPC, streams": ("-i", "grpc", "-u", server.target, "--streaming", "--async"),
                "REST": ("-i", "http", "-u", rest),
            }
            found = {
                protocol: _measure(options, [*arguments, "--input-data", str(boards)], folder / "out.csv")
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


def _measure(options: argparse.Namespace, arguments: list[str], table: Path) -> dict[str, str]:
    """The only row of perf_analyzer's table; ends this program with its words when it fails."""
    command = [str(options.perf_analyzer), "-m", options.model, "-b", str(options.batch), *arguments]
    command += ["--concurrency-range", str(options.callers), "-p", str(round(options.seconds * 1e3))]
    command += ["--stability-percentage", "20", "--verbose-csv", "-f", str(table)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    if run.returncode != 0:
        raise SystemExit(f"{options.perf_analyzer} failed:\n{run.stdout}{run.stderr}")
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    return row


def _input(count: int) -> dict[str, list[object]]:
    """Boards of games that play the first legal move, as perf_analyzer reads them; its own choice would be
    random bytes, which are no boards."""
    episodes = Episodes(0, range(32))
    found: list[object] = []
    while len(found) < count:
        found += [{"boards": {"content": board.tolist(), "shape": [16]}} for board in episodes.boards]
        episodes.step(legal_moves(episodes.boards).argmax(axis=1).astype("int8"))
    return {"data": found[:count]}


if __name__ == "__main__":
    main()
