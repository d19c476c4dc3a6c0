"""Starts the processes that generate the load, and adds up their counts.

Each process has its own connection. It receives orders and sends counts through a pipe, ends when the pipe
closes, and leaves Ctrl-C to the process that started it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Self

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import Boards
from octofold_client.loadtest.forms import Destination, Form, asker_of
from octofold_client.loadtest.loads import (
    Counts,
    Load,
    Schedule,
    Share,
    Windows,
    generate,
    punctual_loop,
)
from octofold_client.rpc.channels import asyncio_channel
from octofold_client.rpc.credentials import PLAINTEXT, Credentials
from octofold_client.rpc.targets import servers_of

SLICE_SECONDS = 0.2
CONNECT_SECONDS = 10.0
HEAD_START_SECONDS = 0.05
"""Time from the order to begin until the load begins, so that all processes begin together."""
STOP_SECONDS = 5.0
_STOP, _END = "stop", "end"


@dataclass(frozen=True)
class Task:
    """The calls that the processes make."""

    target: str
    model: str
    version: str
    form: Form
    boards: Boards
    """`[M, 16]`, sent in turn."""
    seed: int = 0
    timeout_seconds: float = 10.0
    credentials: Credentials = PLAINTEXT


class Workers:
    """Processes that generate a load together; a context manager.

    Args:
        task: calls to make.
        processes: number of processes.
        while_waiting: called at least every 0.2 s during a load; an exception from it ends the load.
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
        """Start the processes and wait until all are connected.

        Raises:
            LoadTestError: a process ended.
        """
        try:
            for _ in range(self._count):
                self._start()
            for pipe in self._pipes:
                self._receive(pipe)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def windows(self, load: Load, ramp_seconds: float, window_seconds: float) -> Windows:
        """Generate the load until the generator is closed.

        Yields the counts of the ramp and then of each window, at its end.

        Raises:
            LoadTestError: a process ended.
        """
        schedule = Schedule(time.monotonic() + HEAD_START_SECONDS, ramp_seconds, window_seconds)
        for number, pipe in enumerate(self._pipes):
            share = Share(load, number, self._count, self._task.seed, self._task.form.boards)
            try:
                pipe.send((share, schedule))
            except OSError:
                raise self._ended(pipe) from None
        try:
            while True:
                yield Counts.of_processes([self._receive(pipe) for pipe in self._pipes])
        finally:
            self._stop()

    def _start(self) -> None:
        context = get_context("spawn")  # a forked process cannot use gRPC
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._task), daemon=True)
        # Ctrl-C goes to every process of the terminal; only this process must react to it. The tracker must
        # start first: it starts with our first process otherwise, and unblocks the signal.
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
        self._while_waiting()  # also if counts come more often than every slice
        while not pipe.poll(SLICE_SECONDS):
            self._while_waiting()
        try:
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._ended(pipe) from None

    def _ended(self, pipe: Connection) -> LoadTestError:
        process = self._processes[self._pipes.index(pipe)]
        process.join(STOP_SECONDS)
        return LoadTestError(f"a load-generating process ended with exit code {process.exitcode}")

    def _stop(self) -> None:
        """End the load and read the counts that are still on their way."""
        with suppress(OSError):
            for pipe in self._pipes:
                pipe.send(_STOP)
        end = time.monotonic() + STOP_SECONDS
        with suppress(EOFError, OSError):
            for pipe in self._pipes:
                while pipe.poll(max(0.0, end - time.monotonic())) and pipe.recv() != _STOP:
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
    """Run in each process: generate one load after the other until the pipe closes."""
    # A line of every process about a lost server would disturb the progress; the result counts the calls.
    logging.getLogger("octofold_client").addHandler(logging.NullHandler())
    with asyncio.Runner(loop_factory=punctual_loop) as runner, suppress(OSError):  # the pipe is closed
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

    def report(counts: Counts) -> None:
        with suppress(OSError):  # the pipe is closed, and the order to end is on its way
            pipe.send(counts)

    async with asyncio_channel(task.target, task.credentials) as channel:
        with suppress(TimeoutError):  # the calls will report the reason
            async with asyncio.timeout(CONNECT_SECONDS):
                await channel.channel_ready()
        metadata, has_others = task.credentials.metadata, servers_of(task.target) > 1
        to = Destination(task.model, task.version, task.timeout_seconds, metadata, has_others)
        asker = asker_of(task.form, channel, to)
        pipe.send("connected")
        loop.add_reader(pipe.fileno(), receive)
        while (order := await orders.get()) != _END:
            share, schedule = order
            load = asyncio.create_task(generate(asker, task.boards, share, schedule, report))
            stopped = asyncio.create_task(orders.get())
            await asyncio.wait([load, stopped], return_when=asyncio.FIRST_COMPLETED)
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load
            if await stopped == _END:
                break
            pipe.send(_STOP)
        await asker.close()
