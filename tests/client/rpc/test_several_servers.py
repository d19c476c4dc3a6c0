"""Clients of several servers: real server processes that join and die while calls are on their way."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from octofold_client import evaluate
from support.fleet_loads import LOADS, under
from support.fleet_servers import Fleet
from support.waiting import wait_for

PAUSE_SECONDS = 0.01
"""Of each caller between two calls, so that servers beside a load can start."""
OPTIONS = ("--max-connection-age", "1")


@pytest.fixture(scope="module")
def fleet(repository: Path) -> Iterator[Fleet]:
    """Two servers whose connections live for a second, and a name for both."""
    with Fleet(repository, "small", "1", OPTIONS) as fleet:
        fleet.add()
        fleet.add()
        yield fleet


async def more(fleet: Fleet, calls: int) -> list[int]:
    """Wait until the servers have answered so many more calls; return those of each server."""
    before = await asyncio.to_thread(fleet.calls)
    while sum(now := await asyncio.to_thread(fleet.calls)) - sum(before) < calls:
        await asyncio.sleep(0.1)
    return [after - earlier for after, earlier in zip(now, before, strict=True)]


async def spread_over_all(fleet: Fleet, calls: int, share: float) -> None:
    """Wait until of so many calls each server has answered this share; the first that was ready had more."""
    while min(shares := await more(fleet, calls)) < share * sum(shares):
        pass


@pytest.mark.parametrize("kind", LOADS)
async def test_every_kind_of_call_spreads_over_the_servers_of_a_name_and_of_a_list(
    fleet: Fleet, kind: str
) -> None:
    for target in (fleet.name, fleet.listed):
        async with under(LOADS[kind], target, PAUSE_SECONDS) as calls:
            await spread_over_all(fleet, 100, 0.3)
        assert not calls.failures


def test_an_evaluation_by_name_plays_the_games_that_one_server_would(fleet: Fleet, tmp_path: Path) -> None:
    before = fleet.calls()
    by_name = evaluate(fleet.name, tmp_path / "name", games=4, seed=3)
    assert all(after > earlier for after, earlier in zip(fleet.calls(), before, strict=True))
    alone = evaluate(fleet.servers[0].target, tmp_path / "alone", games=4, seed=3)
    assert by_name.games == alone.games


async def test_a_server_that_joins_is_found_by_old_clients_and_one_that_is_killed_costs_no_call(
    fleet: Fleet,
) -> None:
    async with under(LOADS["AsyncClient, one board"], fleet.name, PAUSE_SECONDS) as by_name:
        third = await asyncio.to_thread(fleet.add)
        await asyncio.to_thread(wait_for, lambda: fleet.calls_of(third) > 0)
        await spread_over_all(fleet, 300, 0.2)
        async with (
            under(LOADS["Client, one board"], fleet.listed, PAUSE_SECONDS) as by_threads,
        ):
            await more(fleet, 300)
            fleet.kill()
            await more(fleet, 500)
    loads = (by_name, by_threads)
    assert [calls.failures for calls in loads] == [[], []]
    assert all(calls.answered > 100 for calls in loads)
