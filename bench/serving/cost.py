"""What a call costs the server: microseconds of CPU time by kind of call, of several trees in turns.

    python bench/serving/cost.py --tree . --tree ../old
    python bench/serving/cost.py --flag=--tracing              # what an option of the server costs

Each tree's server runs without inference, so that what is left is gRPC's price and the server's own. The
least of all rounds counts: what else the machine does only adds. Calls that meet in batches share some of
their cost, so kinds with one call at a time are the steadiest. It needs Linux, which counts nanoseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio
from octofold_client import AsyncClient
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, report

BOARD = [7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]
PACKAGES = ("proto", "game", "players", "server", "client", "export")
MANY = 64

Load = Callable[[str, int, int], None]
"""Makes that many calls of a gRPC address and a REST port."""


class Server(NamedTuple):
    """A running server of a tree."""

    pid: int
    target: str
    rest_port: int


@contextmanager
def server_of(tree: Path, models: Path, model: str, flags: Sequence[str] = ()) -> Iterator[Server]:
    """Start the server of a tree with more flags, without inference."""
    with tempfile.TemporaryDirectory() as folder:
        port_file, rest_port_file = Path(folder) / "port", Path(folder) / "rest-port"
        command = [
            sys.executable,
            str(tree / "bench" / "serving" / "without_inference.py"),
            "--models",
            str(models),
        ]
        command += ["--default-model", model, "--port", "0", "--rest-port", "0", "--grace", "0"]
        command += ["--port-file", str(port_file), "--rest-port-file", str(rest_port_file)]
        path = os.pathsep.join(str(tree / package) for package in PACKAGES)
        process = subprocess.Popen(
            [*command, "--log-level", "warning", *flags], env={**os.environ, "PYTHONPATH": path}
        )
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the server of {tree} stopped before it was ready")
                time.sleep(0.05)
            target = f"127.0.0.1:{port_file.read_text().strip()}"
            yield Server(process.pid, target, int(rest_port_file.read_text()))
        finally:
            process.terminate()
            process.wait()


def one_by_one(kind: str, target: str, _port: int, calls: int) -> None:
    """Calls of one message, one after the other."""
    tensor = oip.ModelInferRequest.InferInputTensor(name="boards", datatype="UINT8", shape=[1, 16])
    infer = oip.ModelInferRequest(inputs=[tensor], raw_input_contents=[bytes(BOARD)])
    with grpc.insecure_channel(target) as channel:
        octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
        asks: dict[str, Callable[[], object]] = {
            "NextMove": partial(octofold.NextMove, pb.NextMoveRequest(board=BOARD)),
            "NextMoves": partial(octofold.NextMoves, pb.NextMovesRequest(boards=bytes(BOARD))),
            "ModelInfer": partial(inference.ModelInfer, infer),
        }
        for _ in range(calls):
            asks[kind]()


def rest(model: str, _target: str, port: int, calls: int) -> None:
    """Requests over REST on one connection, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    tensor = {"name": "boards", "datatype": "UINT8", "shape": [1, 16], "data": BOARD}
    body = json.dumps({"inputs": [tensor]})
    for _ in range(calls):
        connection.request("POST", f"/v2/models/{model}/infer", body)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
    connection.close()


def unary(target: str, _port: int, calls: int) -> None:
    """Calls of one board, many at the same time."""

    async def run() -> None:
        async with grpc.aio.insecure_channel(target) as channel:
            ask = OctofoldServiceStub(channel).NextMove

            async def caller() -> None:
                for _ in range(calls // MANY):
                    await ask(pb.NextMoveRequest(board=BOARD))

            await asyncio.gather(*(caller() for _ in range(MANY)))

    asyncio.run(run())


def stream(in_flight: int, target: str, _port: int, calls: int) -> None:
    """Send messages on one stream, with up to `in_flight` unanswered messages."""

    async def run() -> None:
        message = pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(BOARD)))
        async with grpc.aio.insecure_channel(target) as channel:
            call = OctofoldServiceStub(channel).StreamNextMoves()
            for _ in range(in_flight):
                await call.write(message)
            for _ in range(calls - in_flight):
                await call.read()
                await call.write(message)
            await call.done_writing()
            while await call.read() is not grpc.aio.EOF:
                pass

    asyncio.run(run())


def async_client(target: str, _port: int, calls: int) -> None:
    """Boards of many tasks of `AsyncClient`."""

    async def run() -> None:
        async with AsyncClient(target) as client:

            async def caller() -> None:
                for _ in range(calls // MANY):
                    await client.next_move(BOARD)

            await asyncio.gather(*(caller() for _ in range(MANY)))

    asyncio.run(run())


def microseconds(server: Server, load: Load, calls: int) -> float:
    """CPU time of the server for one of so many calls."""
    before = cpu_nanoseconds(server.pid)
    load(server.target, server.rest_port, calls)
    return (cpu_nanoseconds(server.pid) - before) / calls / 1e3


def cpu_nanoseconds(pid: int) -> int:
    """CPU time of a process, with its ended threads; the clock's number is that of clock_getcpuclockid."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, action="append", help="a checkout to measure (default: .)")
    parser.add_argument(
        "--flag", action="append", default=[], help="flag of a second server of the last tree"
    )
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="cnn5")
    parser.add_argument("--calls", type=int, default=6400, help="of each kind in one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only kinds whose name contains this")
    options = parser.parse_args()
    trees: list[Path] = [tree.resolve() for tree in options.tree or [Path()]]
    loads: Mapping[str, Load] = {
        "NextMove": partial(one_by_one, "NextMove"),
        "NextMoves": partial(one_by_one, "NextMoves"),
        "ModelInfer": partial(one_by_one, "ModelInfer"),
        "REST": partial(rest, options.model),
        "a stream, one message at a time": partial(stream, 1),
        f"a stream, {MANY} messages at a time": partial(stream, MANY),
        f"NextMove, {MANY} at a time": unary,
        f"AsyncClient, {MANY} tasks": async_client,
    }
    kinds = [kind for kind in loads if options.only in kind]
    with ExitStack() as stack:
        repository = options.models.resolve()
        servers = {
            str(tree): stack.enter_context(server_of(tree, repository, options.model)) for tree in trees
        }
        if options.flag:
            flagged = server_of(trees[-1], repository, options.model, options.flag)
            servers[" ".join(options.flag)] = stack.enter_context(flagged)
        for server in servers.values():
            for kind in kinds:
                loads[kind](server.target, server.rest_port, 640)  # to warm up
        measures = {
            f"{kind} of {name}": partial(microseconds, server, loads[kind], options.calls)
            for kind in kinds
            for name, server in servers.items()
        }
        found = {name: min(costs) for name, costs in interleave(measures, options.rounds).items()}
    rows = []
    for kind in kinds:
        costs = [found[f"{kind} of {name}"] for name in servers]
        rows.append((kind, *(f"{cost:.1f}" for cost in costs), f"{costs[0] / costs[-1]:.3f}"))
    columns = ["kind", *servers, "first / last"]
    report("CPU time of the server, us a call", columns, rows, microseconds=found)


if __name__ == "__main__":
    main()
