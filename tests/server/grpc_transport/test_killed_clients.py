"""Clients that are killed in the middle of everything leave nothing behind in the server."""

from __future__ import annotations

from pathlib import Path

import grpc
import psutil
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.forked_servers import ServerForks
from support.servers import Start, WriteVersion
from support.waiting import wait_for

STORMS = 2
CLIENTS = 4
CALLS = 24

CLIENT = """
import asyncio, sys
import grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

async def main():
    async with grpc.aio.insecure_channel(sys.argv[1]) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=bytes([1] * 16 * 300), with_probabilities=True)
        answered = asyncio.Event()

        async def call():
            while True:
                await stub.NextMoves(request)
                answered.set()

        async def stream():
            stream = stub.StreamNextMoves()
            for number in range(4):
                await stream.write(pb.StreamNextMovesRequest(id=number, request=request))
            await asyncio.Event().wait()  # never reads what it has asked for

        work = [asyncio.ensure_future(call()) for _ in range(4)]
        work += [asyncio.ensure_future(stream()) for _ in range(4)]
        await answered.wait()
        print("busy", file=sys.stderr)
        await asyncio.gather(*work)

asyncio.run(main())
"""


def storm(target: str, forks: ServerForks, folder: Path) -> None:
    """Clients that call, stream and do not read, all killed once each of them has had an answer."""
    program, log_file = folder / "client.py", folder / "client.log"
    program.write_text(CLIENT)
    with log_file.open("wb") as log:
        clients = [forks.start(str(program), [target], log) for _ in range(CLIENTS)]
    wait_for(lambda: log_file.read_text().count("busy") == CLIENTS)
    for client in clients:
        client.kill()
    for client in clients:
        client.wait()


def test_a_storm_of_killed_clients_leaves_no_memory_threads_or_descriptors_behind(
    write_version: WriteVersion, start_server: Start, server_forks: ServerForks, tmp_path: Path
) -> None:
    write_version()
    server = start_server("--max-calls", str(CALLS), "--max-streams", str(CALLS))
    process = psutil.Process(server.process.pid)
    descriptors = process.num_fds()
    most_threads = process.num_threads() + 2 * CALLS + 20  # the pools fill up to what a storm takes

    def is_at_rest() -> bool:
        return process.num_fds() <= descriptors and process.num_threads() <= most_threads

    storm(server.target, server_forks, tmp_path)
    wait_for(is_at_rest)
    memory = process.memory_info().rss
    for _ in range(STORMS):
        storm(server.target, server_forks, tmp_path)
    wait_for(is_at_rest)
    assert process.memory_info().rss < memory + 50 * 2**20
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=bytes([1] * 16))
        assert stub.NextMoves(request).moves == b"\0"
        streams = [
            stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(request=request)])) for _ in range(CALLS)
        ]
        assert [next(stream).response.moves for stream in streams] == [b"\0"] * CALLS
    assert server.terminate() == 0
