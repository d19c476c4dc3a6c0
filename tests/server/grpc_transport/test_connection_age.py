"""Connections that have reached their age: calls finish, streams end when the grace is over."""

from __future__ import annotations

import asyncio

import grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import FakeBackend, RecordingBackend
from support.servers import ServeAll

TRANSPORTS = ("direct",)
BOARD = [1, 1, *[0] * 14]
SECONDS = 100
READY = grpc.ChannelConnectivity.READY


async def test_a_call_at_work_is_answered_after_its_connection_was_told_to_go(serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_connection_age=0.3, max_connection_age_grace=float(SECONDS)) as served:
        backend.gate.clear()
        async with asyncio.timeout(SECONDS), grpc.aio.insecure_channel(served.grpc_target) as channel:
            call = OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=BOARD))
            await asyncio.to_thread(backend.started.acquire)
            while channel.get_state() is READY:  # it may be told so already
                await channel.wait_for_state_change(READY)
            assert not call.done()
            backend.gate.set()
            assert (await call).model == "fake"
            assert (await OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=BOARD))).model


async def test_a_stream_is_answered_until_the_grace_is_over_and_then_ends_with_unavailable(
    serve_all: ServeAll,
) -> None:
    request = pb.StreamNextMovesRequest(id=7, request=pb.NextMovesRequest(boards=bytes(BOARD)))

    async def replies(channel: grpc.aio.Channel) -> list[int]:
        """The ids of what a stream answers before it ends with UNAVAILABLE."""
        stream, found = OctofoldServiceStub(channel).StreamNextMoves(), []
        try:
            await stream.write(request)
            while True:
                found.append((await stream.read()).id)
        except grpc.aio.AioRpcError as ended:
            if ended.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        return found

    with serve_all(FakeBackend(), max_connection_age=0.3, max_connection_age_grace=0.3) as served:
        async with grpc.aio.insecure_channel(served.grpc_target) as channel:
            while await replies(channel) != [7]:  # its connection was too old already
                pass
