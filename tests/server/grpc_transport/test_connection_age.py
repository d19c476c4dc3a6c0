"""Connections at their maximum age: calls finish, and streams end after the grace period."""

from __future__ import annotations

import asyncio

import grpc
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.fakes import RecordingBackend
from support.servers import ServeAll

TRANSPORTS = ("direct",)
BOARD = [1, 1, *[0] * 14]
SECONDS = 100
READY = grpc.ChannelConnectivity.READY


async def test_an_open_call_is_answered_after_its_connection_was_told_to_close(serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, max_connection_age=0.3, max_connection_age_grace=float(SECONDS)) as served:
        backend.gate.clear()
        async with asyncio.timeout(SECONDS), grpc.aio.insecure_channel(served.grpc_target) as channel:
            call = OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=BOARD))
            await asyncio.to_thread(backend.started.acquire)
            while channel.get_state() is READY:  # the channel may know already
                await channel.wait_for_state_change(READY)
            assert not call.done()
            backend.gate.set()
            assert (await call).model == "fake"
            assert (await OctofoldServiceStub(channel).NextMove(pb.NextMoveRequest(board=BOARD))).model
