"""Measures servers with a load generator that takes almost no CPU time: h2load, from Debian's nghttp2-client.

    python3 -m venv /tmp/mosec && /tmp/mosec/bin/pip install mosec onnxruntime
    python bench/serving/native.py --model swift --mosec /tmp/mosec/bin/python
    python bench/serving/native.py --tree ../before --tree . --transport native

A load generator in Python takes so much of two cores that it hides the server's cost. A call has one board
unless its load names 64. h2load sends the same message in all calls, and the vote of `flagship` takes less
time for some boards, so 64 connections come from eight runs of h2load with different boards. mosec supports
only HTTP/1.1, so it has no load with many calls on one connection. "Direct" calls onnxruntime in a loop: with
its best layout and batch size, and with one board at a time. CPU time includes the server and its children.
Octofold's statistics show whether every call was answered.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import psutil
from octofold_client.loadtest.boards import played_boards
from octofold_game.contract.model import GRAPH_FILES
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from direct import best_direct, direct_measures, direct_one_caller
from harness import interleave, medians, new_parser, newest_version, report
from peers import LARGEST_EXPONENT, mosec_server

CASES = {
    "64 connections": (64, 1, 1),
    "64 streams on one connection": (1, 64, 1),
    "one caller": (1, 1, 1),
    "4 callers of 64 boards": (4, 1, 64),
}
"""The loads, keyed by name: number of connections, of concurrent calls on each, and of boards in a call."""

PACKAGES = ("proto", "game", "players", "server", "client", "export")
WARM_UP_SECONDS = 1
MAX_GENERATORS = 8  # runs of h2load at once, each with a board of its own
ONE_CALLER = "one caller"
GRPC = ("-H", "content-type: application/grpc", "-H", "te: trailers")
BOARDS = played_boards(LARGEST_EXPONENT)


class Server(NamedTuple):
    """A running server of Octofold or mosec."""

    pid: int
    url: str
    is_grpc: bool
    answered: Callable[[], int]
    """A function that returns how many calls the server has answered so far."""


class Measured(NamedTuple):
    """The result of one load."""

    calls_per_second: float
    cpu_us: float
    """CPU time of the server per call, in microseconds."""
    mean_us: float
    p50_us: float
    p99_us: float


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__, model="swift", seconds=3, rounds=5)
    parser.add_argument(
        "--tree", type=Path, action="append", help="checkout whose server to measure; repeatable (default: .)"
    )
    parser.add_argument(
        "--transport",
        action="append",
        help="transport of the servers; repeatable, to compare several (default: auto)",
    )
    parser.add_argument(
        "--mosec", type=Path, help="Python of an environment with mosec (default: not measured)"
    )
    parser.add_argument(
        "--only", default="", help="measure only loads whose name contains this (default: all)"
    )
    options = parser.parse_args()
    version = newest_version(options.models, options.model).resolve()
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        (folder / "models").mkdir()
        (folder / "models" / options.model).symlink_to(version.parent)
        flags = ["--models", str(folder / "models"), "--default-model", options.model, "--precision", "int8"]
        trees = options.tree or [Path()]
        transports = options.transport or ["auto"]
        servers = {
            " ".join(
                filter(None, (str(tree) * (len(trees) > 1), f"octofold, {transport}"))
            ): running.enter_context(
                _octofold(tree.resolve(), [*flags, "--transport", transport], options.model)
            )
            for tree in trees
            for transport in transports
        }
        if options.mosec:
            url, pid = running.enter_context(mosec_server(options.mosec, version / GRAPH_FILES["int8"]))
            servers["mosec"] = Server(pid, url, is_grpc=False, answered=lambda: 0)
        measures = {
            (case, name): partial(_measure, server, CASES[case], options.seconds, folder)
            for case in CASES
            if options.only in case
            for name, server in servers.items()
            if server.is_grpc or CASES[case][1] == 1
        }
        found = interleave(
            {f"{case}, {name}": each for (case, name), each in measures.items()}, options.rounds
        )
    direct = medians(interleave(_direct(version), options.rounds))
    _report(options, list(measures), found, direct)


def _report(
    options: argparse.Namespace,
    cases: Sequence[tuple[str, str]],
    found: dict[str, list[Measured]],
    direct: dict[str, float],
) -> None:
    best = best_direct(direct, "int8")
    lone_us = 1e6 / direct[ONE_CALLER]
    rows = []
    figures: dict[str, dict[str, float]] = {}
    for case, name in cases:
        runs = found[f"{case}, {name}"]
        now = Measured(*(statistics.median(values) for values in zip(*runs, strict=True)))
        figures[f"{case}, {name}"] = now._asdict()
        boards = now.calls_per_second * CASES[case][2]
        first = figures[next(f"{case}, {other}" for this, other in cases if this == case)]["calls_per_second"]
        rows.append(
            (
                case,
                name,
                f"{now.calls_per_second:,.0f}",
                f"{now.calls_per_second / first:.2f}",
                f"{boards / best:.2f}",
                f"{now.cpu_us:.0f}",
                f"{now.mean_us:,.0f}",
                f"{now.p50_us:,.0f} / {now.p99_us:,.0f}",
            )
        )
    title = f"{options.model}, int8; direct {best:,.0f} boards/s, one board {lone_us:.0f} us"
    columns = ["load", "server", "calls/s", "of first", "of direct", "CPU, us", "mean, us", "p50 / p99, us"]
    report(title, columns, rows, figures=figures, direct_boards_per_second=best, direct_one_board_us=lone_us)


def _measure(server: Server, load: tuple[int, int, int], seconds: int, folder: Path) -> Measured:
    connections, streams, boards = load
    generators = min(connections, MAX_GENERATORS)
    timing = (f"--duration={seconds}", f"--warm-up-time={WARM_UP_SECONDS}")
    load_flags = ("-t1", f"-c{connections // generators}", f"-m{streams}", *timing)
    protocol = GRPC if server.is_grpc else ("--h1",)
    logs = [folder / f"log-{number}" for number in range(generators)]
    commands = []
    for number, log in enumerate(logs):
        packed = BOARDS[number * boards : (number + 1) * boards].tobytes()
        if server.is_grpc:
            message = pb.NextMovesRequest(boards=packed).SerializeToString()
            packed = b"\0" + len(message).to_bytes(4, "big") + message
        body = folder / f"body-{number}"
        body.write_bytes(packed)
        log.unlink(missing_ok=True)
        commands.append(["h2load", *load_flags, f"--log-file={log}", f"--data={body}", *protocol, server.url])
    answered, cpu = server.answered(), _cpu_seconds(server.pid)
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    outputs = [process.communicate()[0] for process in processes]
    cpu = _cpu_seconds(server.pid) - cpu
    calls_per_second = sum(map(_calls_per_second, outputs))
    latencies = np.array([int(line.split("\t")[2]) for log in logs for line in log.read_text().splitlines()])
    calls = calls_per_second * (seconds + WARM_UP_SECONDS)
    if server.is_grpc and server.answered() - answered < len(latencies):
        raise SystemExit(f"{server.url} has not answered every call")
    p50, p99 = np.percentile(latencies, (50, 99))
    return Measured(calls_per_second, 1e6 * cpu / calls, float(latencies.mean()), float(p50), float(p99))


def _calls_per_second(output: str) -> float:
    """Return the rate that h2load printed. Ends the benchmark if calls failed."""
    rate = re.search(r"finished in \S+, ([\d.]+) req/s", output)
    failed = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", output)
    if not rate or not failed or any(map(int, failed.groups())):
        raise SystemExit(f"calls failed:\n{output}")
    return float(rate[1])


def _cpu_seconds(pid: int) -> float:
    server = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (server, *server.children(recursive=True)))


def _direct(version: Path) -> dict[str, Callable[[], float]]:
    boards = np.frombuffer(BOARDS.tobytes(), np.uint8).reshape(-1, 16)
    found = direct_measures(version, boards, 0.5)
    measures = {name: measure for name, measure in found.items() if "int8" in name}
    return {ONE_CALLER: partial(direct_one_caller, version, boards, 1.0), **measures}


@contextmanager
def _octofold(tree: Path, flags: Sequence[str], model: str) -> Iterator[Server]:
    """Run the server of a checkout on a TCP port, and yield it."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [sys.executable, "-m", "octofold_server.cli", *flags, "--grace", "0"]
        command += ["--port", "0", "--port-file", str(port_file), "--log-level", "warning"]
        path = os.pathsep.join(str(tree / package) for package in PACKAGES)
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the server of {tree} stopped before it was ready")
                time.sleep(0.05)
            port = port_file.read_text().strip()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = GRPCInferenceServiceStub(channel)

                def answered() -> int:
                    models = stub.ModelStatistics(oip.ModelStatisticsRequest(name=model)).model_stats
                    return sum(one.inference_stats.success.count for one in models)

                url = f"http://127.0.0.1:{port}/octofold.v1.OctofoldService/NextMoves"
                yield Server(process.pid, url, is_grpc=True, answered=answered)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
