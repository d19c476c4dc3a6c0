"""Clients that are killed in the middle of everything leave nothing behind in the server."""

from __future__ import annotations

import subprocess
import sys
import time

import grpc
import psutil
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Start, WriteVersion

STORMS = 4
CLIENTS = 5
LIMIT_SECONDS = 30

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
        print("busy", flush=True)
        await asyncio.gather(*work)

asyncio.run(main())
"""


def storm(target: str) -> None:
    """Clients that call, stream and do not read, all killed once each of them has had an answer."""
    command = [sys.executable, "-c", CLIENT, target]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == "busy\n"
    for client in clients:
        client.kill()
    for client in clients:
        client.communicate()


def at_rest(process: psutil.Process, threads: int | None = None, descriptors: int | None = None) -> None:
    """Return once the server has no more of either than before, or the same as a moment ago."""
    give_up = time.monotonic() + LIMIT_SECONDS
    while True:
        before = process.num_threads(), process.num_fds()
        time.sleep(0.3)
        now = process.num_threads(), process.num_fds()
        if now[0] <= (threads or before[0]) and now[1] <= (descriptors or before[1]):
            return
        assert time.monotonic() < give_up, (now, threads, descriptors)


@pytest.mark.timeout(240)
def test_a_storm_of_killed_clients_leaves_no_memory_threads_or_descriptors_behind(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-calls", "24", "--max-streams", "24")
    process = psutil.Process(server.process.pid)
    descriptors = process.num_fds()
    storm(server.target)  # the pools fill up to what such a storm takes
    at_rest(process, descriptors=descriptors)
    threads, memory = process.num_threads(), process.memory_info().rss
    for _ in range(STORMS):
        storm(server.target)
    pool = 24 + 24 + 16
    at_rest(process, threads=max(threads, pool + 20), descriptors=descriptors)
    assert process.memory_info().rss < memory + 50 * 2**20
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=bytes([1] * 16))
        assert stub.NextMoves(request).moves == b"\0"
        streams = [
            stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(request=request)])) for _ in range(24)
        ]
        assert [next(stream).response.moves for stream in streams] == [b"\0"] * 24
    assert server.terminate() == 0
