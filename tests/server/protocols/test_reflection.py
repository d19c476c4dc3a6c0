"""Reflection over a real connection: both versions, and streams that send nothing or are not read."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.protocols.reflection import MAX_STREAMS
from support.grpc_calls import raw_stream
from support.http2 import RawConnection
from support.http2_frames import message_start
from support.servers import Served, Start, WriteVersion
from support.waiting import wait_for

TRANSPORTS = ("native", "direct")

LIST = reflection_pb2.ServerReflectionRequest(list_services="")
UNREAD_STREAMS = 200
VERSIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


def stream_of(channel: grpc.Channel | grpc.aio.Channel, version: str = VERSIONS[0]) -> Any:
    return channel.stream_stream(
        f"/{version}/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_both_versions_describe_the_services(server: Served, version: str) -> None:
    symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="octofold.v1.OctofoldService")
    unknown = reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.Such")
    replies = list(stream_of(server.channel, version)(iter([LIST, symbol, unknown]), timeout=30))
    names = {service.name for service in replies[0].list_services_response.service}
    assert names >= {"octofold.v1.OctofoldService", "grpc.health.v1.Health", VERSIONS[1]}
    symbols = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in names]
    for reply in stream_of(server.channel, version)(iter(symbols), timeout=30):
        assert reply.file_descriptor_response.file_descriptor_proto
    assert b"octofold.v1" in replies[1].file_descriptor_response.file_descriptor_proto[0]
    assert replies[2].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def lists_services(channel: grpc.Channel) -> bool:
    try:
        return bool(list(stream_of(channel)(iter([LIST]), timeout=30)))
    except grpc.RpcError:
        return False


def test_too_many_streams_are_refused_and_other_calls_continue(
    write_version: WriteVersion, start_server: Start, transport: str
) -> None:
    write_version()
    server = start_server()
    message = LIST.SerializeToString()
    sent = message_start(len(message)) + message
    with (
        RawConnection(server.target, stream_window=0) as connection,
        grpc.insecure_channel(server.target) as channel,
    ):
        for number in range(UNREAD_STREAMS):
            stream = connection.begin(f"/{VERSIONS[0]}/ServerReflectionInfo")
            done = connection.send(stream, sent)
            # A stream beyond the limit may be refused before its message is sent.
            assert done == len(sent) or (number >= MAX_STREAMS and done == 0)
        wait_for(lambda: len(connection.replies) == UNREAD_STREAMS)  # the server answers every stream
        if transport == "direct":  # the native transport compresses status messages
            assert connection.wait_for_ends(UNREAD_STREAMS - MAX_STREAMS)
            assert b"reflection streams are open" in b"".join(connection.replies.values())
        with pytest.raises(grpc.RpcError) as failure:
            list(stream_of(channel)(iter([LIST]), timeout=30))
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        board = pb.NextMoveRequest(board=[1] * 16)
        assert OctofoldServiceStub(channel).NextMove(board, timeout=30).model == "tiny"
        connection.close()
        wait_for(lambda: lists_services(channel))
    assert server.terminate() == 0
    assert "Traceback" not in server.log


@pytest.mark.parametrize("message", [b"\xff", reflection_pb2.ServerReflectionRequest(host="h" * 10_000)])
def test_malformed_and_too_long_requests_are_refused(server: Served, message: Any) -> None:
    raw = message if isinstance(message, bytes) else message.SerializeToString()
    call = raw_stream(server.channel, f"{VERSIONS[0]}/ServerReflectionInfo")
    with pytest.raises(grpc.RpcError) as failure:
        list(call(iter([raw]), timeout=30))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
