"""Load from several processes, with every form of call, on a real server."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from contextlib import closing

import numpy as np
import pytest
from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import CallFailed, Form, Task, connect
from octofold_client.loadtest.loads import Closed, Counts, Windows
from octofold_client.loadtest.server_counters import ServerCounters, ServerStatistics, ServerTimes
from octofold_client.loadtest.workers import load_windows
from support.waiting import wait_for

BOARDS = played_boards(15, 64)


def task(target: str, form: str = "packed:4", model: str = "small", timeout: float = 60.0) -> Task:
    return Task(target, model, "1", Form.parse(form), BOARDS, timeout)


@pytest.mark.parametrize("form", ["unary", "packed:16", "stream:16"])
async def test_every_form_of_call_is_answered_or_fails_with_its_status_code(target: str, form: str) -> None:
    async with connect(task(target, form)) as ask:
        n = Form.parse(form).boards
        await asyncio.gather(*(ask(BOARDS[row : row + n]) for row in range(0, 64, n)))
        with pytest.raises(CallFailed) as failed:
            await ask(np.full((1, 16), 17, np.uint8))
        assert failed.value.code == "INVALID_ARGUMENT"
        await ask(BOARDS[:n])
    async with connect(task(target, form, model="nobody")) as ask:
        with pytest.raises(CallFailed) as failed:
            await ask(BOARDS[:1])
        assert failed.value.code == "NOT_FOUND"


@pytest.mark.parametrize("form", ["packed", "stream"])
async def test_a_call_without_an_answer_in_time_counts_as_deadline_exceeded(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with connect(task(address, form, timeout=0.1)) as ask:
            with pytest.raises(CallFailed) as failed:
                await ask(BOARDS)
    assert failed.value.code == "DEADLINE_EXCEEDED"


async def test_callers_on_a_stream_get_unavailable_without_a_server() -> None:
    async with connect(task("127.0.0.1:1", "stream", timeout=2.0)) as ask:
        for _ in range(2):
            with pytest.raises(CallFailed) as failed:
                await ask(BOARDS)
            assert failed.value.code == "UNAVAILABLE"


def calls_since(before: ServerCounters | None, after: ServerCounters | None) -> int:
    split = ServerTimes.between(before, after)
    return 0 if split is None else split.calls


def first_answered(windows: Windows) -> Counts:
    """Return the first window with an answer. On a busy machine, many windows may pass before it."""
    return next(counts for counts in windows if counts.answered)


def test_several_processes_share_the_load_and_the_server_counts_the_same_calls(target: str) -> None:
    calls = task(target)
    with ServerStatistics(target, "small", "1", calls.credentials) as statistics:
        before = statistics.read()
        with closing(load_windows(calls, Closed(3), 0.1, 0.1, processes=2)) as windows:
            ramp, counts = next(windows), first_answered(windows)
        wait_for(lambda: calls_since(before, statistics.read()) >= ramp.answered + counts.answered)
    assert len(counts.cpu_ns) == 2
    assert not counts.errors


def test_a_load_process_that_dies_ends_the_test_and_no_process_is_left(target: str) -> None:
    with closing(load_windows(task(target), Closed(1), 0.0, 0.2)) as windows:
        next(windows)
        (worker,) = multiprocessing.active_children()
        worker.kill()
        with pytest.raises(LoadTestError, match="a load-generating process ended with exit code -9"):
            list(windows)
    assert not multiprocessing.active_children()
