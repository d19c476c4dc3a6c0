"""Limits of a server process on idle streams, unfinished calls and the number of streams."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.servers import Start, WriteVersion


def test_a_stream_on_which_nothing_comes_and_nothing_is_owed_is_ended(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--stream-idle", "0.3")
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def messages() -> Iterator[pb.StreamNextMovesRequest]:
            yield pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16)))
            done.wait()

        stream = OctofoldServiceStub(channel).StreamNextMoves(messages())
        assert next(stream).id == 1
        with pytest.raises(grpc.RpcError, match=r"the stream was idle for 0.3 seconds") as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()


async def test_clients_that_begin_calls_and_never_finish_them_hold_up_nobody(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    limits = ("--max-calls", "20", "--max-streams", "20", "--max-calls-per-connection", "40")
    server = start_server(*limits)
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with AsyncExitStack() as channels:
        idlers = [
            await channels.enter_async_context(grpc.aio.insecure_channel(server.target, options=options))
            for _ in range(6)
        ]
        other = await channels.enter_async_context(grpc.aio.insecure_channel(server.target, options=options))
        methods = (
            *("octofold.v1.OctofoldService/NextMoves", "octofold.v1.OctofoldService/ListModels"),
            *("grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"),
        )
        begin: list[Any] = [idler.stream_unary(f"/{method}") for idler in idlers for method in methods]
        begun = [begin_one() for begin_one in begin for _ in range(10)]  # none ever sends its message
        reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        begun += [idler.stream_unary(reflection)() for idler in idlers for _ in range(10)]

        async def call() -> None:
            await OctofoldServiceStub(other).NextMoves(pb.NextMovesRequest(boards=bytes(16)), timeout=30)

        async def probe() -> None:
            health: Any = health_pb2_grpc.HealthStub(other)  # its published types leave out its methods
            await health.Check(health_pb2.HealthCheckRequest(), timeout=30)

        for ask in (call, probe):
            for _ in range(20):
                await ask()
        assert re.search(r"\d+ calls wait for their messages", server.log)
        for one in begun:
            one.cancel()


async def test_one_connection_cannot_take_all_the_streams(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-streams-per-connection", "2")
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


async def test_streams_beyond_the_limit_are_refused_and_leave_threads_for_calls(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-streams", "20")
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        message = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))

        async def open_stream() -> Any:
            stream = stub.StreamNextMoves()
            await stream.write(message)
            await stream.read()
            return stream

        streams = [await open_stream() for _ in range(20)]
        with pytest.raises(grpc.aio.AioRpcError, match="20 streams are open") as failure:
            await stub.StreamNextMoves().read()  # to write, it may be over already
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.NextMoves(message.request)
        await streams[0].done_writing()
        assert await streams[0].read() == grpc.aio.EOF
        await open_stream()
