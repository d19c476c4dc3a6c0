"""Load as it is made: loops in this process, processes of their own, every form against a real server."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import Client
from octofold_client.errors import LoadTestError
from octofold_client.loadtest.boards import Recorded, played_boards
from octofold_client.loadtest.forms import RETRY, Asker, CallFailed, Destination, Form, asker_of
from octofold_client.loadtest.loads import Closed, Counts, Open, Schedule, Share, generate, punctual_loop
from octofold_client.loadtest.statistics import ServerStatistics, Split
from octofold_client.loadtest.steps import Plan
from octofold_client.loadtest.workers import Task, Workers

BOARDS = played_boards(15, 64)


class FakeAsker:
    """Answers after `seconds`; while one call blocks, the whole event loop stands still."""

    to = Destination("", "", 10.0)
    retry = RETRY

    def __init__(self, seconds: float = 0.01, block_call: int = -1, fail_call: int = -1) -> None:
        self._seconds = seconds
        self._block_call, self._fail_call = block_call, fail_call
        self.begun: list[float] = []

    async def ask(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        number = len(self.begun)
        self.begun.append(time.monotonic())
        if number == self._block_call:
            time.sleep(0.3)
        if number == self._fail_call:
            raise CallFailed("RESOURCE_EXHAUSTED", "full")
        await asyncio.sleep(self._seconds)
        return np.zeros(len(boards), np.int8)

    async def close(self) -> None:
        pass


def generated(asker: Asker, share: Share, seconds: float = 0.5, boards: int = 4) -> Counts:
    """The counts of one window without a ramp before it."""

    async def run() -> Counts:
        schedule = Schedule(time.monotonic() + 0.01, 0.0, seconds)
        windows: asyncio.Queue[Counts] = asyncio.Queue()
        load = asyncio.create_task(
            generate(
                asker, lambda caller: Recorded(BOARDS, boards, caller), share, schedule, windows.put_nowait
            )
        )
        await windows.get()
        counts = await windows.get()
        load.cancel()
        await asyncio.wait([load])
        return counts

    with asyncio.Runner(loop_factory=punctual_loop) as runner:
        return runner.run(run())


def test_a_closed_loop_asks_again_when_it_is_answered_and_counts_the_boards() -> None:
    counts = generated(FakeAsker(), Share(Closed(3)))
    assert 60 <= counts.answered <= 150
    assert counts.boards == 4 * counts.answered
    assert counts.latencies.percentile(50) == pytest.approx(10_000, rel=0.3)
    assert counts.late == 0


def test_callers_that_think_ask_less_often() -> None:
    counts = generated(FakeAsker(), Share(Closed(10, think_seconds=0.09)), seconds=1.0)
    assert 50 <= counts.sent <= 130


def test_an_open_loop_sends_on_time_whatever_the_answers_take() -> None:
    counts = generated(FakeAsker(seconds=0.2), Share(Open(200, poisson=False)))
    assert counts.sent == pytest.approx(100, abs=10)
    assert counts.latencies.percentile(50) == pytest.approx(200_000, rel=0.2)


def test_latency_counts_from_the_intended_time_when_the_client_could_not_send() -> None:
    counts = generated(FakeAsker(block_call=20), Share(Open(200, poisson=False)), seconds=0.8)
    # Of 0.3 s at 200 calls a second, all but the last millisecond's are late, by 150 ms on average.
    assert 55 <= counts.late <= 120
    worst = counts.latencies.percentile(95)
    assert worst is not None
    assert worst >= 200_000


def test_a_caller_that_was_refused_waits_and_its_call_is_counted_as_an_error_only() -> None:
    asker = FakeAsker(fail_call=2)
    counts = generated(asker, Share(Closed(1)))
    assert counts.errors == {"RESOURCE_EXHAUSTED": 1}
    assert counts.last_error == "RESOURCE_EXHAUSTED: full"
    assert asker.begun[3] - asker.begun[2] >= 0.1
    assert counts.sent - counts.answered in (1, 2)


def test_processes_share_callers_and_rate_without_gaps() -> None:
    callers = [caller for process in range(3) for caller in Share(Closed(7), process, 3).callers]
    assert sorted(callers) == list(range(7))
    times = [islice(Share(Open(90, poisson=False), process, 3).send_times(0.0), 10) for process in range(3)]
    assert np.allclose(np.diff(sorted(time for part in times for time in part)), 1 / 90)


@asynccontextmanager
async def asking(target: str, form: str, model: str = "small", timeout: float = 10.0) -> AsyncIterator[Asker]:
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
async def test_no_answer_in_time_is_a_passed_deadline(target: str, form: str) -> None:
    async with asking(target, form, timeout=1e-6) as asker:
        with pytest.raises(CallFailed) as failed:
            await asker.ask(BOARDS)
        assert failed.value.code == "DEADLINE_EXCEEDED"


async def test_a_server_that_is_gone_is_unavailable_also_to_whoever_waits_on_its_stream() -> None:
    async with asking("127.0.0.1:1", "stream") as asker:
        with pytest.raises(CallFailed) as failed:
            await asker.ask(BOARDS)
        assert failed.value.code == "UNAVAILABLE"


def task(target: str, form: str = "packed:4", games: bool = False) -> Task:
    return Task(target, "small", "1", Form.parse(form), None if games else BOARDS, 15)


def test_processes_together_make_the_load_and_the_server_counts_the_same_calls(target: str) -> None:
    with (
        Workers(task(target), processes=2) as workers,
        closing(workers.windows(Closed(3), 0.1, 0.3)) as windows,
        ServerStatistics(target, "small", "1", task(target).credentials) as statistics,
    ):
        next(windows)
        before = statistics.read()
        counts = [next(windows) for _ in range(2)]
        split = Split.between(before, statistics.read())
    assert split is not None
    both = Counts.of_windows(counts)
    assert both.seconds == pytest.approx(0.6, rel=0.2)
    assert split.calls == pytest.approx(both.answered, rel=0.3)
    assert len(both.cpu_shares) == 2
    assert all(share > 0 for share in both.cpu_shares)
    assert not both.errors


def test_callers_that_play_games_get_through_moves_without_an_illegal_one(target: str) -> None:
    with (
        Workers(task(target, games=True)) as workers,
        closing(workers.windows(Closed(4), 0.0, 0.5)) as windows,
    ):
        next(windows)
        counts = next(windows)
    assert counts.answered
    assert not counts.errors


def test_the_same_processes_make_one_load_after_the_other(target: str) -> None:
    with Workers(task(target)) as workers:
        for load in (Closed(1), Open(50)):
            with closing(workers.windows(load, 0.0, 0.3)) as windows:
                next(windows)
                assert next(windows).answered


def test_a_process_that_dies_ends_the_test_and_none_is_left(target: str) -> None:
    with Workers(task(target)) as workers, closing(workers.windows(Closed(1), 0.0, 0.2)) as windows:
        next(windows)
        (worker,) = multiprocessing.active_children()
        worker.kill()
        with pytest.raises(LoadTestError, match="a load-generating process ended with exit code -9"):
            list(windows)
    assert not multiprocessing.active_children()


def test_a_process_that_died_before_a_load_ends_the_test(target: str) -> None:
    with Workers(task(target)) as workers:
        (worker,) = multiprocessing.active_children()
        worker.kill()
        worker.join()
        with pytest.raises(LoadTestError, match="a load-generating process ended with exit code -9"):
            next(workers.windows(Closed(1), 0.0, 0.2))


def test_an_open_loop_of_games_is_refused(target: str) -> None:
    with (
        Workers(task(target, games=True)) as workers,
        pytest.raises(LoadTestError, match="only the callers of a closed loop"),
    ):
        next(workers.windows(Open(10), 0.0, 0.1))


def test_the_example_of_the_documentation_runs(target: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "loadtest.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(example, defined)
    assert defined["p99_ms"](target, 2, Plan(0.0, 0.1, 3)) > 0
