"""Starts and stops the processes that generate a load together, and adds up their counts.

Each process has its own connection. It sends its counts through a pipe, ends when the pipe closes, and leaves
Ctrl-C to the process that started it.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from octofold_client.errors import LoadTestError
from octofold_client.loadtest.forms import Task, connect
from octofold_client.loadtest.loads import Counts, Load, Share, Windows, generate, punctual_loop

POLL_SECONDS = 0.2
HEAD_START_SECONDS = 0.05
"""Time between the start message and the start of the load, so that all processes start together."""
STOP_TIMEOUT_SECONDS = 5.0


def load_windows(
    task: Task,
    load: Load,
    ramp_seconds: float,
    window_seconds: float,
    processes: int = 1,
    while_waiting: Callable[[], None] = lambda: None,
) -> Windows:
    """Generate a load until the generator is closed.

    Yields the counts of the ramp and then of each window, at its end. `while_waiting` is called at least
    every 0.2 s; an exception from it ends the load.

    Raises:
        LoadTestError: a process ended.
    """
    workers: list[tuple[Connection, Any]] = []

    def receive() -> list[Any]:
        received = []
        for pipe, process in workers:
            while_waiting()  # call it even if the counts have arrived
            while not pipe.poll(POLL_SECONDS):
                while_waiting()
            try:
                received.append(pipe.recv())
            except (EOFError, ConnectionResetError):
                process.join(STOP_TIMEOUT_SECONDS)
                raise LoadTestError(
                    f"a load-generating process ended with exit code {process.exitcode}"
                ) from None
        return received

    try:
        for _ in range(processes):
            workers.append(_start(task))
        receive()  # all are connected
        begin = time.monotonic() + HEAD_START_SECONDS
        for number, (pipe, _) in enumerate(workers):
            with suppress(OSError):  # the process has ended, and `receive` reports it
                pipe.send(Share(load, begin, ramp_seconds, window_seconds, number, processes))
        while True:
            yield Counts.of_processes(receive())
    finally:
        for pipe, _ in workers:
            pipe.close()
        for _, process in workers:
            process.join(STOP_TIMEOUT_SECONDS)
            process.kill()
            process.join()
            process.close()


def _start(task: Task) -> tuple[Connection, Any]:
    """Start a process. Return this end of its pipe, and the process."""
    context = get_context("spawn")  # a forked process cannot use gRPC
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, task), daemon=True)
    # Ctrl-C goes to every process of the terminal, but only this process must react to it. The resource
    # tracker must start before the signal is blocked. Otherwise, it starts below and unblocks it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return ours, process


def _work(pipe: Connection, task: Task) -> None:
    """Generate a load until the pipe closes. This is the main function of each process."""
    # Discard log records, which would disturb the progress display. The result counts failed calls.
    logging.getLogger("octofold_client").addHandler(logging.NullHandler())
    with suppress(EOFError, OSError), asyncio.Runner(loop_factory=punctual_loop) as runner:
        runner.run(_generate(pipe, task))


async def _generate(pipe: Connection, task: Task) -> None:
    loop = asyncio.get_running_loop()

    def report(counts: Counts) -> None:
        with suppress(OSError):  # the pipe is closed, so this load ends
            pipe.send(counts)

    def stop() -> None:
        loop.remove_reader(pipe.fileno())
        load.cancel()

    async with connect(task) as ask:
        pipe.send("connected")
        share = pipe.recv()
        load = loop.create_task(generate(ask, task.boards, task.form.boards, share, report))
        loop.add_reader(pipe.fileno(), stop)  # from now on, only the end of the pipe can arrive
        with suppress(asyncio.CancelledError):
            await load
