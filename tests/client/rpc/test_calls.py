"""Conversations without a server: when a call is retried, and how its answer is read."""

from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from octofold_client import errors
from octofold_client.rpc.calls import Calls, Conversation, Send, Wait
from octofold_client.rpc.retry import RetryPolicy
from octofold_game.rules import BoardError
from octofold_proto import status
from octofold_proto.octofold.v1 import inference_pb2 as pb

BOARDS = np.ones((2, 16), np.uint8)


class FailedCall(grpc.RpcError):
    """An exception with a status, like gRPC's."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return next(code for code in grpc.StatusCode if code.value[0] == self._status.code)

    def details(self) -> str:
        message: str = self._status.message
        return message

    def trailing_metadata(self) -> Any:
        return ((status.DETAILS_KEY, self._status.SerializeToString()),)


def failed(code: grpc.StatusCode, message: str = "because", *details: Message) -> FailedCall:
    failure = Status(code=code.value[0], message=message)
    for detail in details:
        failure.details.add().Pack(detail)
    return FailedCall(failure)


UNAVAILABLE = failed(grpc.StatusCode.UNAVAILABLE, "draining")


def drive(conversation: Conversation[object], *replies: Message | FailedCall) -> tuple[Any, list[Any]]:
    """Answer every `Send` with the next reply; return the result and all steps."""
    steps, left = [], list(replies)
    try:
        step = next(conversation)
        while True:
            steps.append(step)
            if isinstance(step, Wait):
                step = next(conversation)
            else:
                reply = left.pop(0)
                step = (
                    conversation.throw(reply) if isinstance(reply, FailedCall) else conversation.send(reply)
                )
    except StopIteration as end:
        return end.value, steps


def test_a_call_that_finds_no_server_is_sent_again_after_growing_waits() -> None:
    calls = Calls("here:1", retry=RetryPolicy(attempts=4, first_wait_seconds=0.1))
    answer, steps = drive(
        calls.next_moves(BOARDS, False),
        UNAVAILABLE,
        UNAVAILABLE,
        UNAVAILABLE,
        pb.NextMovesResponse(moves=b"\x00\xff"),
    )
    assert [type(step) for step in steps] == [Send, Wait, Send, Wait, Send, Wait, Send]
    waits = [step.seconds for step in steps if isinstance(step, Wait)]
    assert all(low <= wait <= 1.5 * low for wait, low in zip(waits, (0.1, 0.2, 0.4), strict=True))
    assert answer.moves.tolist() == [0, -1]


def test_a_call_fails_after_its_last_attempt_and_the_error_names_the_address() -> None:
    calls = Calls("here:1", retry=RetryPolicy(attempts=2))
    with pytest.raises(errors.Unavailable, match="here:1: draining"):
        drive(calls.list_models(), UNAVAILABLE, UNAVAILABLE)


def test_a_call_to_a_full_queue_is_repeated_after_the_time_that_the_server_names() -> None:
    full = failed(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "full", RetryInfo(retry_delay=Duration(nanos=70_000_000))
    )
    _, steps = drive(Calls("here:1").list_models(), full, pb.ListModelsResponse())
    wait = steps[1]
    assert isinstance(wait, Wait)
    assert 0.07 <= wait.seconds <= 0.105


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequest),
        (grpc.StatusCode.NOT_FOUND, errors.UnknownModel),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlinePassed),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.UnexpectedStatus),  # our server would send RetryInfo
        (grpc.StatusCode.UNIMPLEMENTED, errors.NotOctofold),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, errors.NotAllowed),
        (grpc.StatusCode.ABORTED, errors.UnexpectedStatus),
    ],
)
def test_errors_that_a_retry_cannot_fix_are_not_retried(
    code: grpc.StatusCode, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        drive(Calls("here:1").list_models(), failed(code))
    assert type(raised.value) is error


def test_an_invalid_board_is_refused_before_anything_is_sent() -> None:
    boards = np.zeros((3, 16), np.int64)
    boards[2, 5] = 18
    with pytest.raises(BoardError, match=r"board 2.*cell 5"):
        next(Calls("here:1").next_moves(boards, False))
    with pytest.raises(BoardError):
        next(Calls("here:1").next_moves([[1, 2, 3]], False))
    with pytest.raises(BoardError):
        next(Calls("here:1").next_move([1] * 15))


@pytest.mark.parametrize(
    "response",
    [
        pb.NextMovesResponse(moves=b"\x00"),
        pb.NextMovesResponse(moves=b"\x00\x01"),
        pb.NextMovesResponse(moves=b"\x00\x01", probabilities=bytes(31)),
    ],
)
def test_an_answer_of_the_wrong_length_is_an_error(response: pb.NextMovesResponse) -> None:
    with pytest.raises(errors.BrokenAnswer):
        drive(Calls("here:1").next_moves(BOARDS, True), response)
