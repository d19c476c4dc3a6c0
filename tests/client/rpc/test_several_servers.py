"""Clients of several servers: real server processes join and die during calls.

A call counts as failed only if the client has given up after its retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from octofold_client import AsyncClient, Client
from octofold_client.loadtest.server_counters import ServerStatistics
from octofold_client.rpc.credentials import PLAINTEXT
from support.fleets import Fleet, Member
from support.waiting import wait_for

BOARDS = np.random.default_rng(1).integers(0, 6, (256, 16), dtype=np.uint8)
CALLERS = 8
PAUSE_SECONDS = 0.01
"""Pause of each caller between two calls, so that servers can start beside a load."""
TIMEOUT_SECONDS = 60.0
"""Timeout of a call with its retries. On a busy machine, a call is slow but not lost."""


@dataclass
class Calls:
    """The calls of a load so far."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)
    is_over: bool = False
    """A test sets it to end the load."""


Load = Callable[[str, Calls], Awaitable[None]]
"""A function that calls the servers of a target until `is_over`."""


async def by_tasks(target: str, calls: Calls) -> None:
    """Send single boards from many tasks, which share calls."""
    async with AsyncClient(target, timeout_seconds=TIMEOUT_SECONDS) as client:
        await repeat(calls, lambda: client.next_move(BOARDS[0]))


async def by_threads(target: str, calls: Calls) -> None:
    """Send single boards from many threads, which share calls."""
    with Client(target, timeout_seconds=TIMEOUT_SECONDS) as client:
        await repeat(calls, lambda: asyncio.to_thread(client.next_move, BOARDS[0]))


async def repeat(calls: Calls, ask: Callable[[], Awaitable[object]]) -> None:
    async def caller() -> None:
        while not calls.is_over:
            try:
                await ask()
            except Exception as error:  # any exception means that the caller has no answer
                calls.failures.append(f"{type(error).__name__}: {error}")
            else:
                calls.answered += 1
            await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


LOADS: Mapping[str, Load] = {"tasks": by_tasks, "threads": by_threads}


@asynccontextmanager
async def under(load: str, target: str) -> AsyncIterator[Calls]:
    """Run a load until the block ends, and then until its last calls have ended."""
    calls = Calls()
    task = asyncio.ensure_future(LOADS[load](target, calls))
    try:
        yield calls
    finally:
        calls.is_over = True
        await task


@pytest.fixture(scope="module")
def fleet(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two servers whose connections live for a second, and a name for both."""
    with Fleet(tmp_path_factory.mktemp("fleet"), "--max-connection-age", "1", "--grace", "0") as fleet:
        for _ in range(2):
            fleet.start(repository).wait_until_ready()
        yield fleet


def calls_of(server: Member) -> int:
    """Return the number of calls that a server has answered."""
    answered: list[int] = []

    def is_told() -> bool:  # a busy server may miss the deadline
        if counters := statistics.read():
            answered.append(counters.calls)
        return bool(answered)

    with ServerStatistics(server.target, "small", "1", PLAINTEXT) as statistics:
        wait_for(is_told)
    return answered[0]


def all_calls(fleet: Fleet) -> list[int]:
    """Return the number of calls that each running server has answered."""
    return [calls_of(server) for server in fleet.servers if server.process.poll() is None]


async def further_calls(fleet: Fleet, calls: int) -> list[int]:
    """Wait until the servers have answered `calls` more calls; return how many each of them answered."""
    before = await asyncio.to_thread(all_calls, fleet)
    while sum(now := await asyncio.to_thread(all_calls, fleet)) - sum(before) < calls:
        await asyncio.sleep(0.1)
    return [after - earlier for after, earlier in zip(now, before, strict=True)]


async def spread_over_all(fleet: Fleet, calls: int, share: float) -> None:
    """Wait until each server answers this share of the next calls. The first ready one begins with more."""
    while min(shares := await further_calls(fleet, calls)) < share * sum(shares):
        pass


@pytest.mark.parametrize("kind", LOADS)
async def test_every_kind_of_call_is_spread_over_the_servers_of_a_name_and_of_a_list(
    fleet: Fleet, kind: str
) -> None:
    for target in (fleet.name, fleet.listed):
        async with under(kind, target) as calls:
            await spread_over_all(fleet, 100, 0.3)
        assert not calls.failures


async def test_existing_clients_find_a_new_server_and_lose_no_call_when_one_is_killed(
    fleet: Fleet, repository: Path
) -> None:
    async with under("tasks", fleet.name) as by_name:
        third = await asyncio.to_thread(fleet.start, repository)
        await asyncio.to_thread(third.wait_until_ready)
        await asyncio.to_thread(wait_for, lambda: calls_of(third) > 0)
        await spread_over_all(fleet, 300, 0.2)
        async with under("threads", fleet.listed) as by_threads:
            await further_calls(fleet, 300)
            third.kill()
            await further_calls(fleet, 500)
    loads = (by_name, by_threads)
    assert [calls.failures for calls in loads] == [[], []]
    assert all(calls.answered > 100 for calls in loads)
