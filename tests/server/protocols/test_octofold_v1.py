"""Encoded boards, and RPCs over a real channel: replies, statuses, and calls that never run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from octofold_proto.errors import BackendFailed, QueueFull, UnknownModel
from octofold_proto.messages import MOVES, VOTES
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.status import error_of, status_of_call
from octofold_server.backends.backend import MOVE_ALONE
from support.fakes import FakeBackend, RecordingBackend, fake_moves
from support.served import packed
from support.servers import ServeBackend

TRANSPORTS = ("native", "direct")

BOARDS = np.random.default_rng(7).integers(1, 12, (40, 16), dtype=np.uint8)


def domain_error(error: grpc.aio.AioRpcError) -> Exception:
    return error_of(status_of_call(error.code(), error.details(), error.trailing_metadata()))


@asynccontextmanager
async def held(
    serve_backend: ServeBackend, **options: int
) -> AsyncIterator[tuple[Any, RecordingBackend, asyncio.Task[pb.NextMovesResponse]]]:
    """Serve a backend. Keep its only lane busy with one board until the gate is set, and forget this batch.

    Yield a stub, the backend and the call with this board.
    """
    backend = RecordingBackend()
    async with serve_backend(backend, **options) as stub:
        backend.gate.clear()
        holding = asyncio.ensure_future(stub.NextMoves(packed(BOARDS[:1])))
        await asyncio.to_thread(backend.started.acquire)
        backend.batches.clear()
        yield stub, backend, holding


async def queued(stub: Any) -> None:
    """Wait until the server has read earlier messages, that is, until it has answered a later call on the
    connection."""
    for _ in range(3):
        await stub.ListModels(pb.ListModelsRequest())


async def test_probabilities_and_votes_are_sent_only_if_requested(serve_backend: ServeBackend) -> None:
    backend = RecordingBackend()
    async with serve_backend(backend) as stub:
        reply = await stub.NextMoves(packed(BOARDS))
        assert (reply.probabilities, reply.votes) == (b"", b"")
        assert backend.requested[-1].outputs == MOVE_ALONE
        reply = await stub.NextMoves(packed(BOARDS, with_votes=True))
        assert reply.probabilities == b""
        np.testing.assert_array_equal(VOTES.read(reply.votes, len(BOARDS)), fake_moves(BOARDS).votes)


async def test_a_finished_game_is_an_answer_and_not_an_error(serve_backend: ServeBackend) -> None:
    async with serve_backend(FakeBackend()) as stub:
        over = np.zeros((1, 16), np.uint8)  # the fake backend treats an empty board as finished
        reply = await stub.NextMove(pb.NextMoveRequest(board=over[0].tolist()))
        assert reply.game_over
        assert reply.direction == pb.DIRECTION_UNSPECIFIED
        assert list(reply.probabilities) == [0, 0, 0, 0]
        assert (await stub.NextMoves(packed(over))).moves == b"\xff"


async def test_replies_have_the_queue_time_and_the_inference_time(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        waiting = asyncio.ensure_future(stub.NextMoves(packed(BOARDS)))
        await queued(stub)
        backend.gate.set()
        assert (await waiting).queue_us > 0
        assert (await holding).inference_us > 0


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (pb.NextMoveRequest(board=[0] * 15), "board 0 ends before its cell 15"),
        (pb.NextMoveRequest(board=[0] * 17), "must hold 16 exponents, got 17"),
        (pb.NextMoveRequest(board=[1] * 5 + [16] + [1] * 10), "board 0.*cell 5"),
        (pb.NextMoveRequest(board=[1] * 15 + [4_000_000_000]), "board 0.*cell 15"),
        (pb.NextMoveRequest(), "must hold 16 exponents, got 0"),
        (pb.NextMovesRequest(), "16 bytes for each board, got none"),
        (pb.NextMovesRequest(boards=bytes(33)), "board 2 ends before its cell 1"),
        (pb.NextMovesRequest(boards=bytes(16), priority=7), "priority must be one of .*, got 7"),  # type: ignore[arg-type]
        (pb.NextMovesRequest(boards=bytes(37) + b"\x10" + bytes(10)), "board 2.*cell 5"),
        (pb.NextMovesRequest(boards=bytes(16 * 501)), "a call may have at most 500 boards, got 501"),
        (
            pb.NextMovesRequest(boards=bytes(16), search_time_us=600_000),
            "a call may ask for at most 0.5 s of search for each board, got 0.6 s",
        ),
    ],
)
async def test_a_malformed_call_is_refused_with_its_board_and_cell_and_does_not_run(
    serve_backend: ServeBackend, request_: Any, message: str
) -> None:
    backend = RecordingBackend()
    async with serve_backend(backend, queue_capacity=500, max_search_time=0.5) as stub:
        method = stub.NextMove if isinstance(request_, pb.NextMoveRequest) else stub.NextMoves
        with pytest.raises(grpc.aio.AioRpcError, match=message) as failure:
            await method(request_)
        assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        if isinstance(request_, pb.NextMovesRequest):
            stream = stub.StreamNextMoves(iter([pb.StreamNextMovesRequest(id=5, request=request_)]))
            (answer,) = [answer async for answer in stream]
            assert answer.id == 5
            assert answer.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
            assert answer.error.message == failure.value.details()
        assert backend.rows == 0


@pytest.mark.parametrize(("model", "version"), [("nobody", ""), ("", "7")])
async def test_an_unknown_model_or_version_is_not_found(
    serve_backend: ServeBackend, model: str, version: str
) -> None:
    async with serve_backend(FakeBackend()) as stub:
        for call in (
            stub.NextMove(pb.NextMoveRequest(model=model, version=version, board=[1] * 16)),
            stub.NextMoves(packed(BOARDS, model=model, version=version)),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match="ready models: fake/1") as failure:
                await call
            assert failure.value.code() == grpc.StatusCode.NOT_FOUND
            assert isinstance(domain_error(failure.value), UnknownModel)


async def test_a_full_queue_is_resource_exhausted_with_retry_info(serve_backend: ServeBackend) -> None:
    async with held(serve_backend, queue_capacity=40) as (stub, backend, holding):
        accepted = asyncio.ensure_future(stub.NextMoves(packed(BOARDS)))
        await queued(stub)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.NextMove(pb.NextMoveRequest(board=[1] * 16))
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        error = domain_error(failure.value)
        assert isinstance(error, QueueFull)
        assert error.retry_after_seconds > 0
        backend.gate.set()
        await asyncio.gather(holding, accepted)


async def test_a_cancelled_call_never_reaches_the_backend(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        leaving = stub.NextMoves(packed(BOARDS))
        await queued(stub)
        leaving.cancel()
        await queued(stub)
        backend.gate.set()
        await holding
        await stub.NextMoves(packed(BOARDS[:3]))
        assert backend.rows == 3


async def test_a_call_whose_deadline_passes_in_the_queue_never_runs(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.NextMoves(packed(BOARDS), timeout=0.2)
        assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await queued(stub)  # the server knows that the deadline has passed
        backend.gate.set()
        await holding
        await stub.NextMoves(packed(BOARDS[:3]))
        assert backend.rows == 3


async def test_interactive_calls_go_before_bulk_calls(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        bulk = stub.NextMoves(packed(np.full((40, 16), 1, np.uint8), priority=pb.PRIORITY_BULK))
        await queued(stub)
        interactive = stub.NextMoves(packed(np.full((30, 16), 2, np.uint8)))
        await queued(stub)
        backend.gate.set()
        await asyncio.gather(holding, bulk, interactive)
        assert np.concatenate(backend.batches)[:, 0].tolist() == [2] * 30 + [1] * 40


async def test_calls_that_arrive_together_get_their_own_replies(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        plain = [stub.NextMoves(packed(board[np.newaxis])) for board in BOARDS]
        with_votes = [stub.NextMoves(packed(board[np.newaxis], with_votes=True)) for board in BOARDS]
        single = [stub.NextMove(pb.NextMoveRequest(board=board.tolist()), timeout=60) for board in BOARDS]
        bad = stub.NextMoves(packed(np.full((1, 16), 40, np.uint8)))
        await queued(stub)
        leaving = plain.pop()
        leaving.cancel()
        await queued(stub)
        backend.gate.set()
        await holding
        expected = fake_moves(BOARDS)
        replies = await asyncio.gather(*plain)
        assert [MOVES.read(reply.moves, 1)[0] for reply in replies] == expected.moves[:-1].tolist()
        assert {(reply.votes, reply.model, reply.version) for reply in replies} == {(b"", "fake", "1")}
        replies = await asyncio.gather(*with_votes)
        np.testing.assert_array_equal([VOTES.read(reply.votes, 1)[0] for reply in replies], expected.votes)
        replies = await asyncio.gather(*single)
        np.testing.assert_array_equal([list(reply.votes) for reply in replies], expected.votes)
        with pytest.raises(grpc.aio.AioRpcError, match="board 0, cell 0") as failure:
            await bad
        assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert backend.rows == 3 * len(BOARDS) - 1


async def test_a_backend_failure_is_internal_with_an_id_and_the_next_call_is_served(
    serve_backend: ServeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_backend(RecordingBackend(poison=13)) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.NextMoves(packed(np.full((1, 16), 13, np.uint8)))
        assert failure.value.code() == grpc.StatusCode.INTERNAL
        error = domain_error(failure.value)
        assert isinstance(error, BackendFailed)
        assert error.error_id in caplog.text
        await stub.NextMoves(packed(BOARDS))


async def test_a_stream_answers_every_message_by_its_id(serve_backend: ServeBackend) -> None:
    async with serve_backend(FakeBackend(), lanes=2) as stub:
        messages = [
            pb.StreamNextMovesRequest(id=number, request=packed(BOARDS[: number % 40 + 1]))
            for number in range(300)
        ]
        answers = {answer.id: answer async for answer in stub.StreamNextMoves(iter(messages))}
        assert len(answers) == 300
        for number, answer in answers.items():
            expected = fake_moves(BOARDS[: number % 40 + 1]).moves
            np.testing.assert_array_equal(MOVES.read(answer.response.moves, len(expected)), expected)


async def test_a_stream_answers_as_ready_and_not_in_order(serve_backend: ServeBackend) -> None:
    async with held(serve_backend) as (stub, backend, holding):
        large = pb.StreamNextMovesRequest(id=1, request=packed(np.tile(BOARDS, (500, 1))))
        small = pb.StreamNextMovesRequest(id=2, request=packed(BOARDS[:1]))
        stream = stub.StreamNextMoves()
        await stream.write(large)
        await stream.write(small)
        await queued(stub)
        backend.gate.set()
        await stream.done_writing()
        assert [answer.id async for answer in stream] == [2, 1]
        await holding


async def test_list_models_returns_versions_states_and_cards(serve_backend: ServeBackend) -> None:
    async with serve_backend(FakeBackend()) as stub:
        (model,) = (await stub.ListModels(pb.ListModelsRequest())).models
        assert (model.name, model.is_default) == ("fake", True)
        (version,) = model.versions
        assert (version.version, version.state, version.precision) == (
            "1",
            pb.ModelVersion.STATE_READY,
            "fp32",
        )
        assert '"largest_exponent": 15' in version.card_json
