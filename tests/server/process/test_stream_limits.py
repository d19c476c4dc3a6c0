"""Limits of a server process on idle streams and on the number of streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Start, WriteVersion


def test_a_stream_on_which_nothing_comes_is_ended(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--stream-idle", "0.3")
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def nothing() -> Iterator[pb.StreamNextMovesRequest]:
            done.wait()
            yield from ()

        stream = OctofoldServiceStub(channel).StreamNextMoves(nothing())
        with pytest.raises(grpc.RpcError, match=r"the stream was idle for 0.3 seconds") as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()


async def test_one_connection_cannot_take_all_the_streams(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--transport", "direct", "--max-streams-per-connection", "2")
    message = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))

    async def open_stream(channel: grpc.aio.Channel) -> Any:
        stream = OctofoldServiceStub(channel).StreamNextMoves()
        await stream.write(message)
        await stream.read()
        return stream

    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with (
        grpc.aio.insecure_channel(server.target, options=options) as greedy,
        grpc.aio.insecure_channel(server.target, options=options) as modest,
    ):
        streams = [await open_stream(greedy) for _ in range(2)]
        with pytest.raises(grpc.aio.AioRpcError, match="2 streams are open on this connection") as failure:
            await OctofoldServiceStub(greedy).StreamNextMoves().read()  # to write, it may be over already
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        streams.append(await open_stream(modest))
