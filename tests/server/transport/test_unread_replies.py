"""Calls of one message whose client never takes the reply, at a real server: they are cut off."""

from __future__ import annotations

from typing import Any

import grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.batching.statistics import Refusals
from octofold_server.transport.unread import UnreadReplies
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.servers import Start, WriteVersion
from support.waiting import wait_for

EACH_TRANSPORT = True

NEXT_MOVES = "/octofold.v1.OctofoldService/NextMoves"
MIB = 2**20


def ask(connection: RawConnection, count: int) -> None:
    """Ask about that many boards."""
    message = pb.NextMovesRequest(boards=bytes(16 * count), with_probabilities=True).SerializeToString()
    sent = message_start(len(message)) + message
    assert connection.send(connection.begin(NEXT_MOVES), sent, end=True) == len(sent)


def test_a_reply_that_is_not_taken_gives_its_bytes_back(
    write_version: WriteVersion, start_server: Start, transport: str
) -> None:
    write_version()
    limits = ("--max-message-bytes", str(2 * MIB), "--max-bytes-in-flight", str(4 * MIB))
    server = start_server("--message-timeout", "1", *limits)
    large = pb.NextMovesRequest(boards=bytes(16 * 65_000))
    with RawConnection(server.target, stream_window=0) as connection:
        ask(connection, 65_000)
        wait_for(lambda: bool(connection.replies))  # the server has begun to answer
        ask(connection, 65_000)
        with grpc.insecure_channel(server.target) as channel:
            stub = OctofoldServiceStub(channel)

            def is_answered() -> bool:
                try:
                    return len(stub.NextMoves(large, timeout=60).moves) == 65_000
                except grpc.RpcError:  # there is no room yet
                    return False

            wait_for(is_answered)
        if transport == "direct":  # no public name ends a call past a message that is on its way
            assert connection.wait_for_ends(2)


class Ended:
    """A call of a connection whose reply of 1,000 bytes is not taken."""

    unread_bytes = 1000

    def __init__(self, client: str) -> None:
        self._client = client
        self.why = ""

    def peer(self) -> str:
        return self._client

    def cut_off(self, _: int, why: str) -> None:
        self.why = why


def test_of_too_many_unread_replies_the_connection_with_the_most_loses_its_oldest() -> None:
    refusals = Refusals()
    unread = UnreadReplies(60, 3000, refusals, clock=iter(range(10)).__next__)
    calls: list[Any] = [Ended(client) for client in ("modest", "greedy", "greedy", "greedy", "greedy")]
    unread.look(calls)
    assert not any(call.why for call in calls)  # they may just be on their way
    unread.look(calls)
    assert [bool(call.why) for call in calls] == [False, True, True, False, False]
    assert refusals.counts() == {"UNAVAILABLE": 2}
