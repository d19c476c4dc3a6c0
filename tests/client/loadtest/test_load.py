"""Load as processes make it, and every form of call, against a real server."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_client import Client
from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Asker, CallFailed, Destination, Form, asker_of
from octofold_client.loadtest.loads import Closed, Counts, Windows
from octofold_client.loadtest.statistics import ServerCounters, ServerStatistics, Split
from octofold_client.loadtest.steps import Plan
from octofold_client.loadtest.workers import Task, Workers
from support.waiting import wait_for

BOARDS = played_boards(15, 64)


@asynccontextmanager
async def asking(target: str, form: str, model: str = "small", timeout: float = 60.0) -> AsyncIterator[Asker]:
    async with grpc.aio.insecure_channel(target) as channel:
        asker = asker_of(Form.parse(form), channel, Destination(model, "1", timeout))
        yield asker
        await asker.close()


@pytest.mark.parametrize("form", ["unary", "packed:16", "stream:16", "oip:16"])
async def test_every_form_of_call_gets_the_moves_that_the_client_gets(target: str, form: str) -> None:
    n = Form.parse(form).boards
    with Client(target) as client:
        expected = client.next_moves(BOARDS).moves
    async with asking(target, form) as asker:
        answers = await asyncio.gather(*(asker.ask(BOARDS[row : row + n]) for row in range(0, 64, n)))
    assert np.concatenate(answers).tolist() == expected.tolist()


@pytest.mark.parametrize("form", ["unary", "packed", "stream", "oip"])
async def test_a_failed_call_has_its_status_code_in_every_form_and_the_next_is_answered(
    target: str, form: str
) -> None:
    bad = np.full((1, 16), 17, np.uint8)
    async with asking(target, form) as asker:
        with pytest.raises(CallFailed) as failed:
            await asker.ask(bad)
        assert failed.value.code == "INVALID_ARGUMENT"
        assert len(await asker.ask(BOARDS[:1])) == 1
    async with asking(target, form, model="nobody") as asker:
        with pytest.raises(CallFailed) as failed:
            await asker.ask(BOARDS[:1])
        assert failed.value.code == "NOT_FOUND"


@pytest.mark.parametrize("form", ["packed", "stream"])
async def test_no_answer_in_time_is_a_passed_deadline(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with asking(f"127.0.0.1:{silent.getsockname()[1]}", form, timeout=0.1) as asker:
            with pytest.raises(CallFailed) as failed:
                await asker.ask(BOARDS)
    assert failed.value.code == "DEADLINE_EXCEEDED"


async def test_a_server_that_is_gone_is_unavailable_also_to_whoever_waits_on_its_stream() -> None:
    async with asking("127.0.0.1:1", "stream") as asker:
        with pytest.raises(CallFailed) as failed:
            await asker.ask(BOARDS)
        assert failed.value.code == "UNAVAILABLE"


def task(target: str) -> Task:
    return Task(target, "small", "1", Form.parse("packed:4"), BOARDS)


def calls_since(before: ServerCounters | None, after: ServerCounters | None) -> int:
    split = Split.between(before, after)
    return 0 if split is None else split.calls


def first_answered(windows: Windows) -> Counts:
    """The first window with an answer. On a busy machine it may take many."""
    return next(counts for counts in windows if counts.answered)


def test_processes_together_make_the_load_and_the_server_counts_the_same_calls(target: str) -> None:
    with (
        Workers(task(target), processes=2) as workers,
        ServerStatistics(target, "small", "1", task(target).credentials) as statistics,
    ):
        before = statistics.read()
        with closing(workers.windows(Closed(3), 0.1, 0.1)) as windows:
            ramp, counts = next(windows), first_answered(windows)
        wait_for(lambda: calls_since(before, statistics.read()) >= ramp.answered + counts.answered)
    assert len(counts.cpu_shares) == 2
    assert all(share > 0 for share in counts.cpu_shares)
    assert not counts.errors


def test_a_process_that_dies_ends_the_test_and_none_is_left(target: str) -> None:
    with Workers(task(target)) as workers, closing(workers.windows(Closed(1), 0.0, 0.2)) as windows:
        next(windows)
        (worker,) = multiprocessing.active_children()
        worker.kill()
        with pytest.raises(LoadTestError, match="a load-generating process ended with exit code -9"):
            list(windows)
    assert not multiprocessing.active_children()


def test_the_example_of_the_documentation_runs(target: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "loadtest.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(example, defined)
    assert defined["p99_ms"](target, 2, Plan(0.0, 0.1, 3)) > 0
