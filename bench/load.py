"""What loads a service in the benchmarks: callers over gRPC, who ask again as soon as they are answered.

Each kind of load is a method that loads for some seconds, returns boards a second and keeps the seconds of
every call. All run on one event loop, in the process that measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import numpy as np
from numpy.typing import NDArray
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

PACKED_BOARDS = 64
BULK_BOARDS = 60_000
OPTIONS = (("grpc.max_receive_message_length", -1),)


@dataclass
class Latencies:
    """Seconds of calls, and of the batches that answered them."""

    seconds: list[float] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)

    def ms(self, percentile: float) -> float:
        """A percentile of the calls' milliseconds."""
        return float(np.percentile(self.seconds, percentile)) * 1e3


class Load:
    """Load on one server.

    Args:
        target: its address.
        boards: `[n, 16]`, to ask about in turn.
        seconds: for which each kind of load lasts.
    """

    def __init__(self, target: str, boards: NDArray[np.uint8], seconds: float) -> None:
        self._boards = boards
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._channel = self._loop.run_until_complete(_connect(target))
        self._stub = OctofoldServiceStub(self._channel)
        self._number = 0

    def close(self) -> None:
        """Leave the server."""
        self._loop.run_until_complete(self._channel.close())

    def packed(self, callers: int, latencies: Latencies) -> float:
        """Callers of 64 boards a call."""

        async def call() -> int:
            request = pb.NextMovesRequest(boards=self._next(PACKED_BOARDS).tobytes())
            await self._stub.NextMoves(request)
            return PACKED_BOARDS

        return self._loop.run_until_complete(self._callers(callers, call, latencies))

    def single(self, callers: int, latencies: Latencies) -> float:
        """Callers of one board a call."""

        async def call() -> int:
            reply = await self._stub.NextMove(pb.NextMoveRequest(board=self._next(1)[0].tolist()))
            latencies.batch_seconds.append(reply.inference_us / 1e6)
            return 1

        return self._loop.run_until_complete(self._callers(callers, call, latencies))

    def streams(self, callers: int, latencies: Latencies) -> float:
        """Callers with a stream each, one board a message."""

        async def run() -> float:
            streams = [self._stub.StreamNextMoves() for _ in range(callers)]
            free = list(streams)

            async def call() -> int:
                stream = free.pop()
                request = pb.NextMovesRequest(boards=self._next(1).tobytes())
                await stream.write(pb.StreamNextMovesRequest(request=request))
                await stream.read()
                free.append(stream)
                return 1

            rate = await self._callers(callers, call, latencies)
            for stream in streams:
                await stream.done_writing()
                await stream.read()
            return rate

        return self._loop.run_until_complete(run())

    def beside_bulk(self, latencies: Latencies) -> float:
        """One caller of one board beside one of 60,000, of the same priority; the former's latencies."""

        async def run() -> float:
            bulk = pb.NextMovesRequest(boards=np.resize(self._boards, (BULK_BOARDS, 16)).tobytes())
            saturating = asyncio.ensure_future(self._stub.NextMoves(bulk))
            await asyncio.sleep(0.2)

            async def call() -> int:
                reply = await self._stub.NextMove(pb.NextMoveRequest(board=self._next(1)[0].tolist()))
                latencies.batch_seconds.append(reply.inference_us / 1e6)
                return 1

            rate = await self._callers(1, call, latencies)
            saturating.cancel()
            return rate

        return self._loop.run_until_complete(run())

    def _next(self, count: int) -> NDArray[np.uint8]:
        start = self._number * count % (len(self._boards) - count + 1)
        self._number += 1
        return self._boards[start : start + count]

    async def _callers(self, callers: int, call: Callable[[], Awaitable[int]], latencies: Latencies) -> float:
        return await load(callers, call, self._seconds, latencies)


async def load(
    callers: int, call: Callable[[], Awaitable[int]], seconds: float, latencies: Latencies
) -> float:
    """Boards a second of callers that each call again as soon as they are answered.

    Args:
        callers: how many.
        call: asks once; how many boards were answered.
        seconds: for which they go on.
        latencies: of the calls, added to.
    """
    boards = 0
    begin = time.perf_counter()
    end = begin + seconds

    async def caller() -> None:
        nonlocal boards
        while (start := time.perf_counter()) < end:
            answered = await call()  # awaited first: others add to the sum meanwhile
            boards += answered
            latencies.seconds.append(time.perf_counter() - start)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return boards / (time.perf_counter() - begin)


async def _connect(target: str) -> grpc.aio.Channel:
    channel = grpc.aio.insecure_channel(target, options=OPTIONS)
    await channel.channel_ready()
    return channel
