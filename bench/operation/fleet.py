"""Servers that join, leave and die under load, and what becomes of the calls of our clients.

    python bench/operation/fleet.py --model swift

Every kind of call runs against two servers, by their name and by their list. By name, a third server joins,
and stops after SIGTERM; the table shows when it got its first call and its share. Then one of two servers is
killed with SIGKILL and started again. The exit code is 1 if a call failed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from octofold_client.rpc.local_server import LocalServer

sys.path.append(str(Path(__file__).parents[2] / "tests" / "shared"))  # whose servers and loads these are
from support.fleet_loads import LOADS, Calls, under
from support.fleet_servers import Fleet

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import newest_version, report

FAIR = 0.8
"""A server has its share of the calls from 80% of the average on."""
LOOK_SECONDS = 0.5
MOST_SECONDS = 60.0


@dataclass
class Row:
    """What happened in one run."""

    event: str
    load: str
    by: str
    calls: int
    failed: int
    slowest_ms: float
    first_call_s: float | None = None
    """Time from the start of the server to its first call."""
    share_s: float | None = None
    """Time from the start of the server until it had its share."""

    def cells(self) -> list[str]:
        """The row as text."""
        times = ["" if seconds is None else f"{seconds:.1f}" for seconds in (self.first_call_s, self.share_s)]
        counts = [f"{self.calls:,}", f"{self.failed:,}", f"{self.slowest_ms:,.0f}"]
        return [self.event, self.load, self.by, *counts, *times]


async def share_of(fleet: Fleet, newest: LocalServer, since: float) -> tuple[float, float]:
    """Wait until the newest server has its share; return the seconds to its first call and to its share."""
    first = None
    before = await asyncio.to_thread(fleet.calls)
    while time.monotonic() < since + MOST_SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        now = await asyncio.to_thread(fleet.calls)
        calls = [after - earlier for after, earlier in zip(now, before, strict=True)]
        before = now
        if first is None and now[-1]:
            first = time.monotonic() - since
        if first is not None and calls[-1] >= FAIR * sum(calls) / len(calls):
            return first, time.monotonic() - since
    raise SystemExit(f"{newest.target} had no share after {MOST_SECONDS:g} s")


async def joins_and_leaves(fleet: Fleet, seconds: float) -> tuple[float, float]:
    """A third server joins, gets its share, and stops."""
    third = await asyncio.to_thread(fleet.add)
    times = await share_of(fleet, third, time.monotonic())
    await asyncio.sleep(seconds)
    fleet.end()
    await asyncio.sleep(seconds)
    return times


async def dies_and_returns(fleet: Fleet, seconds: float) -> tuple[float, float]:
    """One of two servers is killed, and another takes its address."""
    await asyncio.sleep(seconds)
    fleet.kill()
    await asyncio.sleep(seconds)
    again = await asyncio.to_thread(fleet.add)
    return await share_of(fleet, again, time.monotonic())


Event = Callable[[Fleet, float], Awaitable[tuple[float, float]]]


async def measure(name: str, event: Event, fleet: Fleet, load: str, by: str, seconds: float) -> Row:
    """Let something happen while a load runs."""
    calls: Calls
    async with under(LOADS[load], getattr(fleet, by)) as calls:
        await asyncio.sleep(1)
        first, share = await event(fleet, seconds)
    for failure in sorted(set(calls.failures)):
        print(f"{name}, {load}, {by}: {failure}", flush=True)
    return Row(name, load, by, calls.answered, len(calls.failures), calls.slowest_ms, first, share)


async def run(fleet: Fleet, seconds: float) -> list[Row]:
    """All events with all loads."""
    rows = []
    for load in LOADS:
        rows.append(await measure("joins, then leaves", joins_and_leaves, fleet, load, "name", seconds))
        print(" | ".join(rows[-1].cells()), flush=True)
    for load in LOADS:
        for by in ("name", "listed"):
            rows.append(await measure("killed, then back", dies_and_returns, fleet, load, by, seconds))
            print(" | ".join(rows[-1].cells()), flush=True)
    return rows


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="swift")
    parser.add_argument("--age", type=float, default=5.0, help="--max-connection-age of the servers")
    parser.add_argument("--seconds", type=float, default=2.0, help="time before and after each event")
    arguments = parser.parse_args()
    options = ("--max-connection-age", str(arguments.age), "--lanes", "1")
    newest = newest_version(arguments.models, arguments.model).resolve()
    with tempfile.TemporaryDirectory(prefix="octofold-fleet-") as folder:
        only = Path(folder) / arguments.model / newest.name  # a server of one model starts faster
        only.parent.mkdir()
        only.symlink_to(newest)
        with Fleet(Path(folder), arguments.model, newest.name, options) as fleet:
            fleet.add()
            fleet.add()
            rows = asyncio.run(run(fleet, arguments.seconds))
    columns = ["event", "load", "by", "calls", "failed", "slowest ms", "first call s", "share s"]
    title = f"servers that come and go; connections live for {arguments.age:g} s"
    report(title, columns, [row.cells() for row in rows], runs=[asdict(row) for row in rows])
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
