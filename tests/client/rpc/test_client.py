"""Both clients against a real server process."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_client import (
    AsyncClient,
    Client,
    InvalidRequest,
    NextMove,
    NotOctofold,
    RetryPolicy,
    Unavailable,
    UnknownModel,
)
from octofold_game.rules import legal_moves

ONE_TILE = [0] * 15 + [1]


@pytest.fixture
def boards() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(1).integers(0, 5, (20, 16), dtype=np.uint8)


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target) as client:
        yield client


def test_one_board_gets_a_legal_move_and_the_version_that_chose_it(client: Client) -> None:
    answer = client.next_move(ONE_TILE)
    assert answer.move in (0, 3)  # the tile is in the bottom right corner: up or left
    assert answer.probabilities.sum() == pytest.approx(1.0)
    assert answer.votes.sum() == 8  # one vote for each view
    assert (answer.model, answer.version) == ("small", "1")
    assert answer.inference_us > 0


def test_many_boards_get_the_moves_of_single_calls(client: Client, boards: Any) -> None:
    answers = client.next_moves(boards)
    assert answers.moves.dtype == np.int8
    assert answers.probabilities is not None
    assert answers.probabilities.shape == (20, 4)
    assert answers.moves.tolist() == [client.next_move(board).move for board in boards]
    legal = legal_moves(boards)
    assert all(legal[board, move] for board, move in enumerate(answers.moves) if move >= 0)


async def test_a_call_may_name_another_model_than_its_client(target: str, boards: Any) -> None:
    with Client(target, model="none", version="9") as client:
        assert client.next_move(boards[0], model="small").version == "1"
        assert client.next_moves(boards, model="small", version="1").model == "small"
        with pytest.raises(UnknownModel, match="none"):
            client.next_move(boards[0])
        with pytest.raises(UnknownModel, match="small"):
            client.next_moves(boards, model="small", version="7")
    async with AsyncClient(target) as one:
        right, wrong = await asyncio.gather(
            one.next_move(boards[0], model="small"),
            one.next_move(boards[0], model="another"),
            return_exceptions=True,
        )
        assert isinstance(right, NextMove)
        assert isinstance(wrong, UnknownModel)
        assert (await one.next_moves(boards.reshape(-1, 4, 4), version="1")).version == "1"


async def test_a_call_that_is_too_large_for_the_server_is_refused_in_one_sentence(
    target: str, client: Client
) -> None:
    boards = np.zeros((200_000, 16), np.uint8)
    refusal = r"is too large for .*: send fewer boards in a call"
    with pytest.raises(InvalidRequest, match=refusal):
        client.next_moves(boards)
    async with AsyncClient(target) as one:
        with pytest.raises(InvalidRequest, match=refusal):
            await one.next_moves(boards)


UNCLOSED = """
import sys
from octofold_client import Client
client = Client(sys.argv[1])
client.next_move([0] * 15 + [1])
raise SystemExit(3)
"""


def test_a_program_can_end_without_closing_its_client_of_several_servers(target: str) -> None:
    several = f"{target},127.0.0.1:1"
    done = subprocess.run([sys.executable, "-c", UNCLOSED, several], timeout=60, capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"")


async def test_the_asyncio_client_answers_and_fails_like_the_blocking_one(target: str, boards: Any) -> None:
    with Client(target) as client:
        expected = client.next_moves(boards)
    async with AsyncClient(target) as async_client:
        await async_client.wait_until_ready()
        answers = await async_client.next_moves(boards)
        assert answers.moves.tolist() == expected.moves.tolist()
        assert (await async_client.next_move(boards[0])).move == expected.moves[0]
        assert [model.name for model in await async_client.list_models()] == ["small"]
        with pytest.raises(InvalidRequest):
            await async_client.next_moves([[16] * 16])


def test_an_unreachable_server_is_named(port: int) -> None:
    nobody = f"127.0.0.1:{port}"
    with Client(nobody, retry=RetryPolicy(attempts=2)) as client:
        with pytest.raises(Unavailable, match=nobody):
            client.list_models()
        with pytest.raises(Unavailable, match=f"no Octofold server is ready at {nobody}"):
            client.wait_until_ready(0.2)


def test_another_grpc_server_is_recognized_at_once() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Client(f"127.0.0.1:{port}") as client:
            assert client.server_version() is None
            with pytest.raises(NotOctofold, match="not an Octofold server"):
                client.list_models()
            with pytest.raises(NotOctofold):
                client.wait_until_ready()
    finally:
        server.stop(None).wait()
