"""Compares Octofold and mosec: the same ONNX file under the same load generator, in turns.

    python3 -m venv /tmp/mosec && /tmp/mosec/bin/pip install mosec onnxruntime
    python bench/serving/peers.py --mosec /tmp/mosec/bin/python

Each server has one single-threaded onnxruntime session per core and uses its dynamic batching. Octofold is
called over gRPC, and mosec over HTTP, its only protocol. This process generates the load on the same cores.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import aiohttp
import grpc
import numpy as np
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.histogram import Histogram
from octofold_client.rpc.local_server import LocalServer
from octofold_game.contract.model import GRAPH_FILES
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from client_load import calls_per_second
from harness import interleave, medians, new_parser, newest_version, report

LOADS = {"1 x 1": (1, 1), "64 x 1": (64, 1), "4 x 64": (4, 64)}
"""The loads, keyed by name: number of callers, and number of boards in each call."""

LARGEST_EXPONENT = 15
START_SECONDS = 120.0
FOLDER = Path(__file__).parent

Ask = Callable[[bytes], Awaitable[object]]
"""A function that asks a server for the moves on boards of 16 bytes each."""

Connect = Callable[[AsyncExitStack], Awaitable[Ask]]
"""A function that connects to a server. Closing the stack closes the connection."""


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__, model="cnn5", seconds=2.0, rounds=5)
    parser.add_argument(
        "--mosec", type=Path, help="Python of an environment with mosec (default: not measured)"
    )
    options = parser.parse_args()

    file = (newest_version(options.models, options.model) / GRAPH_FILES["int8"]).resolve()
    loop = asyncio.new_event_loop()
    with ExitStack() as running:
        arguments = ("--default-model", options.model, "--precision", "int8")
        target = running.enter_context(LocalServer(options.models, arguments)).target
        servers = {"octofold": _octofold(target)}
        if options.mosec:
            url, _ = running.enter_context(mosec_server(options.mosec, file))
            servers["mosec"] = _mosec_infer(url)
        closing = AsyncExitStack()
        running.callback(lambda: loop.run_until_complete(closing.aclose()))
        asks = {name: loop.run_until_complete(connect(closing)) for name, connect in servers.items()}
        latencies = {(name, kind): Histogram() for name in asks for kind in LOADS}
        boards = played_boards(LARGEST_EXPONENT)

        def measure(name: str, kind: str) -> float:
            callers, count = LOADS[kind]

            def call(_: int, number: int) -> Awaitable[object]:
                start = number * count % (len(boards) - count + 1)
                return asks[name](boards[start : start + count].tobytes())

            load = calls_per_second(callers, call, options.seconds, latencies[name, kind])
            return loop.run_until_complete(load) * count

        measures = {f"{kind}, {name}": partial(measure, name, kind) for kind in LOADS for name in asks}
        found = medians(interleave(measures, options.rounds))
    _report(options.model, found, latencies, list(asks))


def _report(
    model: str, found: Mapping[str, float], latencies: Mapping[tuple[str, str], Histogram], names: list[str]
) -> None:
    rows = [
        (
            kind,
            name,
            f"{found[f'{kind}, {name}']:,.0f}",
            f"{found[f'{kind}, octofold'] / found[f'{kind}, {name}']:.2f}",
            f"{_ms(latencies[name, kind], 50):.1f} / {_ms(latencies[name, kind], 99):.1f}",
        )
        for kind in LOADS
        for name in names
    ]
    columns = ["callers x boards", "server", "boards/s", "speed of octofold / server", "p50 / p99, ms"]
    p99 = {f"{kind}, {name}": _ms(now, 99) for (name, kind), now in latencies.items()}
    report(f"servers of {model}", columns, rows, boards_per_second=found, p99_ms=p99)


def _ms(latencies: Histogram, percentile: float) -> float:
    return (latencies.percentile(percentile) or 0) / 1e3


def _octofold(target: str) -> Connect:
    async def connect(closing: AsyncExitStack) -> Ask:
        stub = OctofoldServiceStub(await closing.enter_async_context(grpc.aio.insecure_channel(target)))

        async def ask(boards: bytes) -> object:
            return await stub.NextMoves(pb.NextMovesRequest(boards=boards))

        return ask

    return connect


def _mosec_infer(url: str) -> Connect:
    async def connect(closing: AsyncExitStack) -> Ask:
        session = await closing.enter_async_context(aiohttp.ClientSession(raise_for_status=True))

        async def ask(boards: bytes) -> object:
            async with session.post(url, data=boards) as reply:
                moves = np.frombuffer(await reply.read(), np.int8)
                assert len(moves) == len(boards) // 16
                return moves

        return ask

    return connect


@contextmanager
def mosec_server(python: Path, file: Path) -> Iterator[tuple[str, int]]:
    """Serve a file with mosec, once it answers.

    Args:
        python: the Python of an environment that has mosec.
        file: the ONNX file.

    Yields:
        The URL for boards and the process ID.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [str(python), str(FOLDER / "peer_mosec.py"), "--port", str(port)],
        env={**environment, "OCTOFOLD_PEER": str(file)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/inference"
        _wait_until_answered(url)
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_answered(url: str) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, data=bytes(16)), timeout=START_SECONDS).close()
            return
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main()
