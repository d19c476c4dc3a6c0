"""Loads on several servers: every way in which our clients ask for moves, until they are stopped.

A call counts as failed only if the client has given it up after its retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from octofold_client import AsyncClient, Client

BOARDS = np.random.default_rng(1).integers(0, 6, (256, 16), dtype=np.uint8)
CALLERS = 8
PACKED = 16
TIMEOUT_SECONDS = 60.0
"""Of a call with its retries. On a starved machine a call is slow, and not lost."""


@dataclass
class Calls:
    """The calls of a load so far."""

    answered: int = 0
    slowest_ms: float = 0.0
    failures: list[str] = field(default_factory=list)
    pause_seconds: float = 0.0
    """Of each caller between two calls."""
    is_over: bool = False
    """Set when the load shall end."""


Load = Callable[[str, Calls], Awaitable[None]]
"""Calls the servers of a target until `is_over`."""


async def by_tasks(target: str, calls: Calls) -> None:
    """Single boards of many tasks, which share calls."""
    async with AsyncClient(target, timeout_seconds=TIMEOUT_SECONDS) as client:
        await _repeat(calls, lambda: client.next_move(BOARDS[0]))


async def packed(target: str, calls: Calls) -> None:
    """Calls of several boards each."""
    async with AsyncClient(target, timeout_seconds=TIMEOUT_SECONDS) as client:
        await _repeat(calls, lambda: client.next_moves(BOARDS[:PACKED]))


async def by_threads(target: str, calls: Calls) -> None:
    """Single boards of many threads, which share calls."""
    with Client(target, timeout_seconds=TIMEOUT_SECONDS) as client:
        await _repeat(calls, lambda: asyncio.to_thread(client.next_move, BOARDS[0]))


LOADS: Mapping[str, Load] = {
    "AsyncClient, one board": by_tasks,
    "Client, one board": by_threads,
    f"AsyncClient, {PACKED} boards": packed,
}


@asynccontextmanager
async def under(load: Load, target: str, pause_seconds: float = 0.0) -> AsyncIterator[Calls]:
    """Run a load until the block ends, and then until its last calls have ended."""
    calls = Calls(pause_seconds=pause_seconds)
    task = asyncio.create_task(_ensure(load(target, calls)))
    try:
        yield calls
    finally:
        calls.is_over = True
        await task


async def _ensure(work: Awaitable[None]) -> None:
    await work


async def _repeat(calls: Calls, ask: Callable[[], Awaitable[object]]) -> None:
    async def caller() -> None:
        while not calls.is_over:
            begin = time.monotonic()
            try:
                await ask()
            except Exception as error:  # whatever it is, the caller has no answer
                calls.failures.append(f"{type(error).__name__}: {error}")
            else:
                calls.answered += 1
                calls.slowest_ms = max(calls.slowest_ms, 1e3 * (time.monotonic() - begin))
            if calls.pause_seconds:
                await asyncio.sleep(calls.pause_seconds)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
