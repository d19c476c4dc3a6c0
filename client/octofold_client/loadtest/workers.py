"""The processes that make the load, controlled by one thread that adds up their counts.

Each process has a connection of its own. It takes orders and reports through a pipe, ends when the pipe
closes, and leaves Ctrl-C to the process that started it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
from numpy.typing import NDArray

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import Playing, Recorded, Source
from octofold_client.loadtest.forms import Asker, Destination, Form, asker_of
from octofold_client.loadtest.loads import (
    Closed,
    Counts,
    Load,
    Schedule,
    Share,
    Windows,
    generate,
    punctual_loop,
)
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.rpc.methods import CHANNEL_OPTIONS

SLICE_SECONDS = 0.2
CONNECT_SECONDS = 10.0
HEAD_START_SECONDS = 0.05
"""From the order to begin until it takes effect, so that all processes begin together."""
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Task:
    """What the processes ask, and of which server."""

    target: str
    model: str
    version: str
    form: Form
    boards: NDArray[np.uint8] | None
    """`[M, 16]`, asked about over and over; None: every caller plays games."""
    largest_exponent: int
    seed: int = 0
    timeout_seconds: float = 10.0
    credentials: Credentials = PLAINTEXT


class Workers:
    """Processes that make the load of `task` together; a context manager.

    Args:
        task: what they ask.
        processes: how many.
        while_waiting: called every 0.2 s at least while a load is made; what it raises ends it.
    """

    def __init__(
        self, task: Task, processes: int = 1, while_waiting: Callable[[], None] = lambda: None
    ) -> None:
        self._task = task
        self._count = processes
        self._while_waiting = while_waiting
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []

    def __enter__(self) -> Self:
        """Returns when all are connected. Raises `LoadTestError` where one is not."""
        try:
            for _ in range(self._count):
                self._start()
            for pipe in self._pipes:
                self._receive(pipe)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def windows(self, load: Load, ramp_seconds: float, window_seconds: float) -> Windows:
        """Makes the load until the iterator is closed: yields the counts of the ramp, then those of every
        window, once it is over.

        Raises `LoadTestError` when a process ends, and for an open loop of games; and what `while_waiting`
        raises.
        """
        if self._task.boards is None and not isinstance(load, Closed):
            raise LoadTestError(
                "games are played by callers who wait for their answers: in a closed loop only"
            )
        schedule = Schedule(time.monotonic() + HEAD_START_SECONDS, ramp_seconds, window_seconds)
        for number, pipe in enumerate(self._pipes):
            pipe.send((Share(load, number, self._count, self._task.seed), schedule))
        try:
            while True:
                yield Counts.of_processes([self._receive(pipe) for pipe in self._pipes])
        finally:
            self._stop()

    def _start(self) -> None:
        context = get_context("spawn")  # a forked process cannot use gRPC
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._task), daemon=True)
        # Ctrl-C goes to every process of the terminal; this one passes on, when it likes, that it is over.
        # The tracker first: its start, on the way of our first process, would let the signal through again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def _receive(self, pipe: Connection) -> Any:
        self._while_waiting()  # also where something comes more often than every slice
        while not pipe.poll(SLICE_SECONDS):
            self._while_waiting()
        try:
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            process = self._processes[self._pipes.index(pipe)]
            process.join(STOP_SECONDS)
            raise LoadTestError(
                f"a process that made the load ended with exit code {process.exitcode}"
            ) from None

    def _stop(self) -> None:
        """Ends the load and takes what is still reported of it."""
        with suppress(OSError):
            for pipe in self._pipes:
                pipe.send(None)
        end = time.monotonic() + STOP_SECONDS
        with suppress(EOFError, OSError):
            for pipe in self._pipes:
                while pipe.poll(max(0.0, end - time.monotonic())) and pipe.recv() is not None:
                    pass

    def _end(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(STOP_SECONDS)
            process.kill()
            process.join()
            process.close()


def _work(pipe: Connection, task: Task) -> None:
    """What a process does: one load after the other, until the pipe closes."""
    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(_serve(pipe, task))


async def _serve(pipe: Connection, task: Task) -> None:
    orders: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def receive() -> None:
        try:
            orders.put_nowait(pipe.recv())
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            orders.put_nowait(_END)

    channel: grpc.aio.Channel = task.credentials.channel(grpc.aio, task.target, CHANNEL_OPTIONS)
    async with channel:
        with suppress(TimeoutError):  # calls will say better than we why there is no connection
            async with asyncio.timeout(CONNECT_SECONDS):
                await channel.channel_ready()
        to = Destination(task.model, task.version, task.timeout_seconds, task.credentials.metadata)
        asker = asker_of(task.form, channel, to)
        with suppress(OSError):  # nobody listens any more
            pipe.send("connected")
            loop.add_reader(pipe.fileno(), receive)
            while (order := await orders.get()) != _END:
                await _make(asker, task, pipe, orders, *order)
        await asker.close()


_END = "end"


async def _make(
    asker: Asker, task: Task, pipe: Connection, orders: asyncio.Queue[Any], share: Share, schedule: Schedule
) -> None:
    """One load, until the next order, which can only be to stop."""

    def source(caller: int) -> Source:
        if task.boards is not None:
            return Recorded(task.boards, task.form.boards, caller)
        assert isinstance(share.load, Closed)
        return Playing(task.seed, task.form.boards, caller, share.load.callers, task.largest_exponent)

    def report(counts: Counts) -> None:
        with suppress(OSError):  # of a pipe that has closed, the order to end is on its way
            pipe.send(counts)

    load = asyncio.create_task(generate(asker, source, share, schedule, report))
    stopped = asyncio.create_task(orders.get())
    await asyncio.wait([load, stopped], return_when=asyncio.FIRST_COMPLETED)
    load.cancel()
    with suppress(asyncio.CancelledError):
        await load
    pipe.send(None)
    if stopped.result() == _END:
        orders.put_nowait(_END)
