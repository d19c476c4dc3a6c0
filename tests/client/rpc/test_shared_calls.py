"""Concurrent requests for single boards from many threads and tasks, on real servers."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from threading import Thread, main_thread
from types import CodeType
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_client import AsyncClient, Client, ClientClosed, InvalidRequest, NextMove
from octofold_client.rpc.coalescing import ThreadRequest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1 import inference_pb2_grpc
from support.waiting import wait_for

BOARDS = np.random.default_rng(3).integers(0, 5, (64, 16), dtype=np.uint8)
MINUTE = 60.0
TOO_LARGE = [16] + [0] * 15  # the small model's largest exponent is 15


def same(answer: NextMove, alone: NextMove) -> bool:
    return (
        (answer.move, answer.model, answer.version) == (alone.move, alone.model, alone.version)
        and np.allclose(answer.probabilities, alone.probabilities, atol=1e-6)
        and answer.votes.tolist() == alone.votes.tolist()
        and (answer.probabilities.dtype.name, answer.votes.dtype.name) == ("float32", "uint8")
    )


@pytest.fixture(scope="module")
def alone(target: str) -> list[NextMove]:
    """The answers to the boards, one call for each."""
    with Client(target) as client:
        return [client.next_move(board) for board in BOARDS]


def test_boards_of_many_threads_get_the_answers_of_single_calls(target: str, alone: list[NextMove]) -> None:
    with Client(target) as client, ThreadPoolExecutor(len(BOARDS)) as threads:
        for _ in range(3):
            answers = list(threads.map(client.next_move, BOARDS))
            assert all(map(same, answers, alone))


async def test_boards_of_many_tasks_get_the_answers_of_single_calls(
    target: str, alone: list[NextMove]
) -> None:
    async with AsyncClient(target) as client:
        for _ in range(3):
            answers = await asyncio.gather(*map(client.next_move, BOARDS))
            assert all(map(same, answers, alone))


def test_a_board_that_the_model_refuses_fails_only_its_caller(target: str, alone: list[NextMove]) -> None:
    def ask(board: Any) -> NextMove | InvalidRequest:
        try:
            return client.next_move(board)
        except InvalidRequest as error:
            return error

    boards = [*BOARDS[:20], TOO_LARGE, *BOARDS[20:]]
    with Client(target) as client, ThreadPoolExecutor(len(boards)) as threads:
        answers = list(threads.map(ask, boards))
    refused = answers.pop(20)
    assert isinstance(refused, InvalidRequest)
    assert "board 0, cell 0: small supports tiles up to 32768" in str(refused)
    assert all(same(answer, one) for answer, one in zip(answers, alone, strict=True))  # type: ignore[arg-type]


class Patient(inference_pb2_grpc.OctofoldServiceServicer):
    """A service that first refuses `refusals` calls, then answers with a first cell once `go` is set."""

    def __init__(self, refusals: int = 0) -> None:
        self.go = threading.Event()
        self.refusals = refusals
        self.calls = 0

    def NextMoves(self, request: pb.NextMovesRequest, context: grpc.ServicerContext) -> pb.NextMovesResponse:  # noqa: N802
        self.calls += 1
        if self.calls <= self.refusals:
            context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        self.go.wait(MINUTE)
        boards = request.boards[::16]
        n = len(boards)
        return pb.NextMovesResponse(moves=boards, probabilities=bytes(16 * n), votes=bytes(4 * n))


Listen = Callable[..., tuple[grpc.Server, str]]


@pytest.fixture
def listen() -> Iterator[Listen]:
    servers = []

    def start(servicer: Patient, port: int = 0) -> tuple[grpc.Server, str]:
        server = grpc.server(futures.ThreadPoolExecutor(8))
        servers.append((server, servicer))
        inference_pb2_grpc.add_OctofoldServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        return server, f"127.0.0.1:{port}"

    yield start
    for server, servicer in servers:
        servicer.go.set()
        server.stop(None).wait()


def board_of(cell: int) -> list[int]:
    return [cell] + [0] * 15


def test_closing_the_client_ends_all_waits(listen: Listen) -> None:
    servicer = Patient()
    _, target = listen(servicer)
    client = Client(target)
    with ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(client.next_move, board_of(cell)) for cell in range(12)]
        wait_for(lambda: bool(servicer.calls))
        client.close()
        assert {type(one.exception(60)) for one in asked} == {ClientClosed}
    with pytest.raises(ClientClosed, match="is closed"):
        client.next_move(board_of(1))
    with pytest.raises(ClientClosed, match="is closed"):
        client.list_models()


async def test_closing_the_asyncio_client_ends_all_waits(listen: Listen) -> None:
    servicer = Patient()
    _, target = listen(servicer)
    client = AsyncClient(target)
    tasks = [asyncio.create_task(client.next_move(board_of(cell))) for cell in range(12)]
    tasks.append(asyncio.create_task(client.next_moves([board_of(1)])))  # type: ignore[arg-type]
    await asyncio.to_thread(wait_for, lambda: bool(servicer.calls))
    await client.close()
    answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert {type(answer) for answer in answers} == {ClientClosed}


def _function_of(thread: Thread) -> CodeType:
    """Return the code of the function that a thread is running."""
    assert thread.ident is not None
    return sys._current_frames()[thread.ident].f_code


def test_ctrl_c_ends_only_the_call_of_the_main_thread(listen: Listen) -> None:
    servicer = Patient()
    _, target = listen(servicer)
    with Client(target) as client, ThreadPoolExecutor(7) as threads:
        asked = [threads.submit(client.next_move, board_of(cell)) for cell in range(6)]
        wait_for(lambda: bool(servicer.calls))

        def interrupt() -> None:
            wait_for(lambda: _function_of(main_thread()) is ThreadRequest.result.__code__)
            os.kill(os.getpid(), signal.SIGINT)

        def interrupted() -> None:
            threads.submit(interrupt)
            client.next_move(board_of(9))

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        servicer.go.set()
        assert [one.result(60).move for one in asked] == list(range(6))


FORKED = """
import os, sys
from octofold_client import Client, ClientClosed
client = Client(sys.argv[1])
client.next_move([1] * 16)
child = os.fork()
if not child:
    try:
        client.next_move([1] * 16)
    except ClientClosed as error:
        with client, Client(sys.argv[1]) as other:
            other.next_move([1] * 16)
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.next_move([1] * 16)
client.close()
"""


def test_a_forked_process_must_make_a_client_of_its_own(target: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, target], capture_output=True, text=True, timeout=60, check=True
    )
    assert "was made before this process was forked: make a new client" in done.stdout
