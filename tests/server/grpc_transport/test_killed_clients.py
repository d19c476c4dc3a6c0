"""Clients that vanish during calls leave nothing behind in the server."""

from __future__ import annotations

import grpc
import psutil
from octofold_proto.octofold.v1 import inference_pb2 as pb
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.served import stub_of
from support.servers import Start, WriteVersion
from support.waiting import wait_for

CALLS = 24
SERVICE = "/octofold.v1.OctofoldService/"
REQUEST = pb.NextMovesRequest(boards=bytes([1] * 16 * 300), with_probabilities=True)
STREAMED = pb.StreamNextMovesRequest(request=REQUEST)


def call_and_vanish(target: str) -> None:
    """Begin calls and streams, read no reply, and close the connection."""
    with RawConnection(target, stream_window=0) as connection:
        for method, message in (("NextMoves", REQUEST), ("StreamNextMoves", STREAMED)) * (CALLS // 2):
            content = message.SerializeToString()
            stream = connection.begin(SERVICE + method)
            connection.send(stream, message_start(len(content)) + content, end=method == "NextMoves")


def test_vanished_clients_leave_no_memory_threads_or_descriptors_behind(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-calls", str(CALLS), "--max-streams", str(CALLS))
    process = psutil.Process(server.process.pid)
    call_and_vanish(server.target)
    descriptors, threads = process.num_fds(), process.num_threads()
    memory = process.memory_info().rss
    for _ in range(20):
        call_and_vanish(server.target)
    wait_for(lambda: process.num_fds() <= descriptors and process.num_threads() <= threads + CALLS)
    assert process.memory_info().rss < memory + 50 * 2**20
    with stub_of(server.target) as stub:

        def all_find_room() -> bool:
            streams = [stub.StreamNextMoves(iter([STREAMED])) for _ in range(CALLS)]
            try:
                return {len(next(stream).response.moves) for stream in streams} == {300}
            except grpc.RpcError as error:  # calls of vanished clients may not have ended yet
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                return False
            finally:
                for stream in streams:
                    stream.cancel()

        wait_for(all_find_room)
    assert server.terminate() == 0
