"""Clients that do not read replies: the server ends their calls and streams and frees their memory."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.methods import UnreadReplies
from support.fakes import FakeBackend
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.rest_requests import INFER
from support.servers import Ask, ServeAll, ServerProcess, Start, WriteVersion
from support.waiting import wait_for

SERVICE = "/octofold.v1.OctofoldService/"
MIB = 2**20
TRANSPORTS = ("direct",)


@pytest.fixture
def start(write_version: WriteVersion, start_server: Start) -> Start:
    """Start a server of the model `tiny`."""
    write_version()
    return start_server


def begin(connection: RawConnection, method: str, message: bytes) -> int:
    """Begin a call or a stream with this message; return the number of its HTTP/2 stream."""
    stream = connection.begin(SERVICE + method)
    is_stream = method.startswith("Stream")
    connection.send(stream, message_start(len(message)) + message, end=not is_stream)
    return stream


def without_reading(server: ServerProcess, method: str, message: bytes) -> RawConnection:
    """Return a connection with no room for an answer that the server has begun to send."""
    while True:
        connection = RawConnection(server.target, stream_window=1000)
        replies, stream = connection.replies, begin(connection, method, message)
        wait_for(partial(replies.__contains__, stream))
        if not connection.ended:
            return connection
        connection.close()  # the machine was too busy: the message came too late


def boards(count: int) -> pb.NextMovesRequest:
    return pb.NextMovesRequest(boards=bytes(16 * count), with_probabilities=True)


def test_the_bytes_of_a_dropped_reply_are_released(start: Start) -> None:
    limits = ("--max-message-bytes", str(2 * MIB), "--max-bytes-in-flight", str(4 * MIB))
    server = start("--message-timeout", "1", *limits)
    message = boards(65_000).SerializeToString()
    with (
        without_reading(server, "NextMoves", message) as connection,
        grpc.insecure_channel(server.target) as channel,
    ):
        begin(connection, "NextMoves", message)

        def is_answered() -> bool:
            try:
                return len(OctofoldServiceStub(channel).NextMoves(boards(65_000), timeout=60).moves) == 65_000
            except grpc.RpcError:  # there is no room yet
                return False

        wait_for(is_answered)
        assert connection.wait_for_ends(2)


def unread_stream(server: ServerProcess) -> RawConnection:
    message = pb.StreamNextMovesRequest(id=1, request=boards(20_000)).SerializeToString()
    return without_reading(server, "StreamNextMoves", message)


def test_a_stream_that_never_reads_loses_its_slot(start: Start) -> None:
    server = start("--stream-idle", "1", "--max-streams", "1")
    with unread_stream(server) as connection, grpc.insecure_channel(server.target) as channel:

        def has_a_slot() -> bool:
            one = pb.StreamNextMovesRequest(id=1, request=boards(1))
            try:
                replies = OctofoldServiceStub(channel).StreamNextMoves(iter([one]), timeout=30)
                return [reply.id for reply in replies] == [1]
            except grpc.RpcError:
                return False

        wait_for(has_a_slot)
        assert connection.wait_for_ends(1)
        assert b"the client read no reply of this stream" in b"".join(connection.replies.values())


def test_a_stream_that_never_reads_does_not_delay_the_drain(start: Start) -> None:
    server = start("--stream-idle", "0", "--drain", "86400")
    with unread_stream(server) as connection:
        assert server.terminate() == 0
        assert connection.closed.wait(60)
    assert "seconds of draining" not in server.log


class Ended:
    """A call whose client does not read its reply of 1,000 bytes."""

    unread_bytes = 1000
    is_alone = False
    why = ""

    def cut_off(self, _: int, why: str) -> None:
        self.why = why


def test_the_oldest_of_too_many_unread_replies_are_dropped() -> None:
    refusals = Refusals()
    unread = UnreadReplies(60, 3000, refusals, clock=iter(range(10)).__next__)
    calls: list[Any] = [Ended() for _ in range(5)]
    unread.cut_off(calls)
    assert not any(call.why for call in calls)  # these replies may be in transit
    unread.cut_off(calls)
    assert [bool(call.why) for call in calls] == [True, True, False, False, False]
    assert refusals.counts() == {"UNAVAILABLE": 2}


BOARDS = 250_000  # the reply exceeds the buffers of sockets
TENSOR = {
    "name": "boards",
    "datatype": "UINT8",
    "shape": [BOARDS, 16],
    "parameters": {"binary_data_size": BOARDS * 16},
}
JSON = json.dumps({"inputs": [TENSOR]}).encode()
ONE = {"inputs": [{"name": "boards", "datatype": "UINT8", "shape": [1, 16], "data": [1] * 16}]}


def rest_client_of(port: int) -> socket.socket:
    """Return a client that requests several megabytes and has little room for them."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.connect(("127.0.0.1", port))
    length = len(JSON) + BOARDS * 16
    headers = f"Content-Length: {length}\r\nInference-Header-Content-Length: {len(JSON)}\r\nConnection: close"
    client.sendall(
        f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode() + JSON + bytes(BOARDS * 16)
    )
    return client


def test_a_rest_client_that_reads_too_slowly_is_disconnected_and_makes_room(
    ask: Ask, serve_all: ServeAll
) -> None:
    with (
        serve_all(
            FakeBackend(),
            max_boards=BOARDS,
            max_calls=1,
            queue_capacity=BOARDS,
            rest={"reply_seconds": 1.0},
        ) as served,
        rest_client_of(served.rest_port) as reader,
    ):
        wait_for(lambda: served.admission.open_calls == 1)

        def served_others_while_one_byte_is_read() -> bool:
            with suppress(ConnectionResetError):
                reader.recv(1)
            return bool(ask(served, "POST", INFER, ONE).status == 200)

        wait_for(served_others_while_one_byte_is_read)
        received = 1
        with suppress(ConnectionResetError):
            while chunk := reader.recv(65_536):
                received += len(chunk)
        assert received < 10 * MIB
