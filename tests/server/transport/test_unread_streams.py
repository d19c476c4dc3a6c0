"""Streams whose client never reads, at a real server: they lose their slot, and hold no drain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.servers import Start, WriteVersion
from support.waiting import wait_for

EACH_TRANSPORT = True

STREAM = "/octofold.v1.OctofoldService/StreamNextMoves"
ONE = pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16)))


def ask_without_reading(connection: RawConnection) -> int:
    """Open a stream and ask for more than the window of a client that never reads takes; its number."""
    request = pb.NextMovesRequest(boards=bytes(16 * 20_000), with_probabilities=True)
    message = pb.StreamNextMovesRequest(id=1, request=request).SerializeToString()
    stream = connection.begin(STREAM)
    sent = message_start(len(message)) + message
    assert connection.send(stream, sent) == len(sent)
    return stream


@pytest.fixture
def unread(write_version: WriteVersion, start_server: Start) -> Iterator[Callable[..., Any]]:
    """Start a server with these flags and let a client not read; both."""
    connections: list[RawConnection] = []

    def unread(*flags: str) -> tuple[Any, RawConnection]:
        write_version()
        server = start_server(*flags)
        connections.append(RawConnection(server.target, stream_window=1000))
        ask_without_reading(connections[0])
        wait_for(lambda: bool(connections[0].replies))  # the server has begun to answer
        return server, connections[0]

    yield unread
    for connection in connections:
        connection.close()


def test_a_stream_that_never_reads_loses_its_slot(unread: Callable[..., Any], transport: str) -> None:
    server, connection = unread("--stream-idle", "1", "--max-streams", "1")
    with grpc.insecure_channel(server.target) as channel:

        def has_a_slot() -> bool:
            try:
                replies = OctofoldServiceStub(channel).StreamNextMoves(iter([ONE]), timeout=30)
                return [reply.id for reply in replies] == [1]
            except grpc.RpcError:
                return False

        wait_for(has_a_slot)
    if transport == "direct":  # no public name ends a call past a message that is on its way
        assert connection.wait_for_ends(1)
        assert b"no reply of this stream was taken" in b"".join(connection.replies.values())


def test_a_stream_that_never_reads_does_not_hold_the_drain(unread: Callable[..., Any]) -> None:
    server, connection = unread("--stream-idle", "0", "--drain", "86400")
    assert server.terminate() == 0
    assert connection.closed.wait(60)
    assert "seconds of draining" not in server.log
