"""Generates load as programs with `octofold_client` do: with threads, tasks and evaluations.

Every function runs for about `seconds` and returns a rate per second.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import psutil
from numpy.typing import NDArray
from octofold_client import AsyncClient, Client
from octofold_client.contenders.local_players import LocalContender
from octofold_client.contenders.served_model import ServedModel, ServedSource, select
from octofold_client.evaluation.playing import MoveSource, play
from octofold_client.loadtest.histogram import Histogram
from octofold_game.replays import ReplayWriter
from octofold_game.rules import LARGEST_EXPONENT
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

Boards = NDArray[np.uint8]

BULK_BOARDS = 60_000


class Pace(NamedTuple):
    """The speed of an evaluation."""

    boards_per_second: float
    client_share: float
    """The client's share of the CPU time of client and server."""


def threads(client: Client, callers: int, boards: Boards, seconds: float, latencies: Histogram) -> float:
    """Return the boards per second of threads that each send the next board once they have an answer."""
    times: list[list[float]] = [[] for _ in range(callers)]
    begin = time.perf_counter()

    def ask(caller: int) -> None:
        own = times[caller]
        while (start := time.perf_counter()) < begin + seconds:
            client.next_move(boards[(caller + callers * len(own)) % len(boards)])
            own.append(time.perf_counter() - start)

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(ask, range(callers)))
    return _pace(times, begin, latencies)


async def calls_per_second(
    callers: int, call: Callable[[int, int], Awaitable[object]], seconds: float, latencies: Histogram
) -> float:
    """Return the calls per second of callers that each call again once they have an answer.

    Args:
        callers: number of concurrent callers.
        call: makes a call, given the number of the caller and a number that is the call's own.
        seconds: how long to run.
        latencies: collects the latency of every call, in microseconds.
    """
    times: list[list[float]] = [[] for _ in range(callers)]
    begin = time.perf_counter()

    async def ask(caller: int) -> None:
        own = times[caller]
        while (start := time.perf_counter()) < begin + seconds:
            await call(caller, caller + callers * len(own))
            own.append(time.perf_counter() - start)

    await asyncio.gather(*map(ask, range(callers)))
    return _pace(times, begin, latencies)


async def tasks(target: str, callers: int, boards: Boards, seconds: float, latencies: Histogram) -> float:
    """Return the boards per second of tasks that each send the next board once they have an answer."""
    async with AsyncClient(target) as client:
        await client.wait_until_ready()

        def call(_: int, number: int) -> Awaitable[object]:
            return client.next_move(boards[number % len(boards)])

        return await calls_per_second(callers, call, seconds, latencies)


async def streams(target: str, callers: int, boards: Boards, seconds: float, latencies: Histogram) -> float:
    """Return the boards per second of streams over one connection, with one board per message."""
    async with grpc.aio.insecure_channel(target) as channel:
        await channel.channel_ready()
        method = OctofoldServiceStub(channel).StreamNextMoves
        every = [method() for _ in range(callers)]

        async def call(caller: int, number: int) -> None:
            question = pb.NextMovesRequest(boards=boards[number % len(boards)].tobytes())
            await every[caller].write(pb.StreamNextMovesRequest(request=question))
            answer = await every[caller].read()
            if len(answer.response.moves) != 1:
                raise RuntimeError(f"no answer: {answer}")

        pace = await calls_per_second(callers, call, seconds, latencies)
        for stream in every:
            await stream.done_writing()
        return pace


def beside_bulk(
    target: str, boards: Boards, seconds: float, latencies: Histogram, batch_seconds: list[float]
) -> float:
    """Return the boards per second of single boards beside a call of 60,000 boards of the same priority.

    Args:
        target: address of the server, HOST:PORT.
        boards: `[N, 16]`, sent in turn.
        seconds: how long to run.
        latencies: collects the latency of every single board, in microseconds.
        batch_seconds: collects the inference time of every batch that answered a single board.
    """
    bulk = pb.NextMovesRequest(boards=np.resize(boards, (BULK_BOARDS, 16)).tobytes())
    with grpc.insecure_channel(target) as channel, Client(target) as client:
        saturating = OctofoldServiceStub(channel).NextMoves.future(bulk)
        time.sleep(0.2)
        asked = 0
        begin = time.perf_counter()
        while (start := time.perf_counter()) < begin + seconds and not saturating.done():
            answer = client.next_move(boards[asked % len(boards)])
            asked += 1
            latencies.record(round(1e6 * (time.perf_counter() - start)))
            batch_seconds.append(answer.inference_us / 1e6)
        pace = asked / (time.perf_counter() - begin)
        saturating.cancel()
        return pace


def _pace(times: list[list[float]], begin: float, latencies: Histogram) -> float:
    wall = time.perf_counter() - begin
    for own in times:
        for taken in own:
            latencies.record(round(1e6 * taken))
    return sum(map(len, times)) / wall


def evaluation(target: str, server_pid: int, games: int, seconds: float) -> Pace:
    """Return the pace of `octofold evaluate` with `games` games in flight, including writing replays."""
    processes = psutil.Process(), psutil.Process(server_pid)
    with Client(target) as client, tempfile.TemporaryDirectory() as folder:
        selected = select(client.list_models())
        cpu = [sum(process.cpu_times()[:2]) for process in processes]
        moves, wall = evaluated([ServedSource(client, selected)], selected, games, seconds, Path(folder))
        client_cpu, server_cpu = (
            sum(process.cpu_times()[:2]) - before for process, before in zip(processes, cpu, strict=True)
        )
    return Pace(moves / wall, client_cpu / (client_cpu + server_cpu))


def evaluated(
    sources: Sequence[MoveSource],
    contender: ServedModel | LocalContender,
    games: int,
    seconds: float,
    folder: Path,
) -> tuple[int, float]:
    """Play `games` games at once for `seconds`. Return the number of moves and the seconds of play.

    The first step does not count.
    """
    largest = contender.largest_exponent or LARGEST_EXPONENT
    moves, begin, end = 0, 0.0, 0.0
    asks = [source.ask for source in sources]
    with (
        ReplayWriter(folder / "games.replay") as writer,
        closing(play(asks, 0, range(games), games, largest)) as steps,
    ):
        for step in steps:
            for episode in step.finished:
                writer.append(episode)
            end = time.perf_counter()
            moves += step.moves if begin else 0
            begin = begin or end
            if end > begin + seconds:
                break
    return moves, end - begin
