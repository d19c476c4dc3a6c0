"""Clients that are killed in the middle of everything leave nothing behind in the server."""

from __future__ import annotations

from pathlib import Path

import grpc
import psutil
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Start, WriteVersion
from support.storms import storm
from support.waiting import wait_for

STORMS = 2
CALLS = 24


def test_a_storm_of_killed_clients_leaves_no_memory_threads_or_descriptors_behind(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    server = start_server("--max-calls", str(CALLS), "--max-streams", str(CALLS))
    process = psutil.Process(server.process.pid)
    descriptors = process.num_fds()
    most_threads = process.num_threads() + 2 * CALLS + 20  # the pools fill up to what a storm takes

    def is_at_rest() -> bool:
        return process.num_fds() <= descriptors and process.num_threads() <= most_threads

    storm(server.target, tmp_path)
    wait_for(is_at_rest)
    memory = process.memory_info().rss
    for _ in range(STORMS):
        storm(server.target, tmp_path)
    wait_for(is_at_rest)
    assert process.memory_info().rss < memory + 50 * 2**20
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        request = pb.NextMovesRequest(boards=bytes([1] * 16))

        def all_find_room() -> bool:
            streams = [
                stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(request=request)])) for _ in range(CALLS)
            ]
            try:
                assert [next(stream).response.moves for stream in streams] == [b"\0"] * CALLS
                assert stub.NextMoves(request).moves == b"\0"
            except grpc.RpcError as error:  # calls of clients that were killed may not have ended yet
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                return False
            finally:
                for stream in streams:
                    stream.cancel()
            return True

        wait_for(all_find_room)
    assert server.terminate() == 0
