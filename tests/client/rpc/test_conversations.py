"""Conversations driven by hand: when a call is tried again, and what its answer is read as. No server."""

import math
import time
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from msgspec.structs import replace
from octofold_client import errors
from octofold_client.rpc.conversations import Calls, Conversation, Send, Wait
from octofold_client.rpc.retry import RetryPolicy
from octofold_game.contract.model import CARD_FORMAT, Card, GraphFile, encode_card
from octofold_game.rules import BoardError
from octofold_proto import status
from octofold_proto.octofold.v1 import inference_pb2 as pb

BOARDS = np.ones((2, 16), np.uint8)


class FailedCall(grpc.RpcError):
    """What gRPC throws, made by hand."""

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
    """Answers every `Send` with the next reply; returns what came of it and all the steps."""
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


def test_a_call_that_grpc_dropped_without_a_status_is_sent_again() -> None:
    dropped = failed(grpc.StatusCode.CANCELLED, "")
    _, steps = drive(Calls("here:1").list_models(), dropped, pb.ListModelsResponse())
    assert [type(step) for step in steps] == [Send, Wait, Send]


def test_a_call_is_given_up_after_its_last_attempt_and_the_error_names_the_address() -> None:
    calls = Calls("here:1", retry=RetryPolicy(attempts=2))
    with pytest.raises(errors.Unavailable, match="here:1: draining"):
        drive(calls.list_models(), UNAVAILABLE, UNAVAILABLE)


def test_without_a_deadline_a_call_has_a_timeout_that_grpc_can_count() -> None:
    _, (step,) = drive(Calls("here:1", timeout_seconds=math.inf).list_models(), pb.ListModelsResponse())
    assert step.timeout_seconds * 1e9 + time.time_ns() < 2**63


def test_a_deadline_that_is_no_number_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest, match="timeout_seconds is not a number"):
        Calls("here:1", timeout_seconds=math.nan)


@pytest.mark.parametrize("seconds", [0, -1, 60.1, math.nan, math.inf])
def test_a_search_time_that_cannot_be_is_an_error_of_the_call(seconds: float) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"search_seconds is {seconds:g}; .* at most 60"):
        Calls("here:1").next_move(BOARDS[0], seconds)
    with pytest.raises(errors.InvalidRequest, match=f"search_seconds is {seconds:g}; .* at most 60"):
        Calls("here:1").next_moves(BOARDS, True, seconds)


def test_no_wait_goes_beyond_the_deadline() -> None:
    calls = Calls("here:1", timeout_seconds=1.0, retry=RetryPolicy(first_wait_seconds=2.0))
    with pytest.raises(errors.Unavailable):
        drive(calls.list_models(), UNAVAILABLE)


def test_each_attempt_gets_what_is_left_of_the_deadline() -> None:
    calls = Calls("here:1", timeout_seconds=5.0)
    _, steps = drive(calls.list_models(), UNAVAILABLE, pb.ListModelsResponse())
    first, _, second = steps
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    assert 0 < second.timeout_seconds < first.timeout_seconds <= 5.0


def test_a_full_queue_is_tried_again_when_the_server_said_so() -> None:
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
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.UnexpectedStatus),  # without RetryInfo it is not ours
        (grpc.StatusCode.UNIMPLEMENTED, errors.NotOctofold),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, errors.NotAllowed),
        (grpc.StatusCode.ABORTED, errors.UnexpectedStatus),
    ],
)
def test_what_will_not_change_is_not_tried_again(code: grpc.StatusCode, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        drive(Calls("here:1").list_models(), failed(code))
    assert type(raised.value) is error


def test_a_board_that_cannot_be_is_refused_before_anything_is_sent() -> None:
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
def test_an_answer_of_the_wrong_length_is_an_error_and_not_a_guess(response: pb.NextMovesResponse) -> None:
    with pytest.raises(errors.BrokenAnswer):
        drive(Calls("here:1").next_moves(BOARDS, True), response)


def test_a_state_that_only_a_newer_server_knows_is_unspecified() -> None:
    versions = [pb.ModelVersion(version="1", state=state) for state in (2, 99)]  # type: ignore[arg-type]
    response = pb.ListModelsResponse(models=[pb.Model(name="m", versions=versions)])
    (model,), _ = drive(Calls("here:1").list_models(), response)
    assert [version.state for version in model.versions] == ["ready", "unspecified"]


def test_a_card_that_cannot_be_read_or_is_of_an_unknown_format_is_none() -> None:
    graph = GraphFile(file="model.onnx", sha256="0" * 64)
    card = Card(format=CARD_FORMAT, name="m", version=1, largest_exponent=15, precisions={"fp32": graph})
    texts = ["", "[]", "{}", encode_card(replace(card, format=2)).decode(), encode_card(card).decode()]
    versions = [pb.ModelVersion(version="1", card_json=text) for text in texts]
    response = pb.ListModelsResponse(models=[pb.Model(name="m", versions=versions)])
    (model,), _ = drive(Calls("here:1").list_models(), response)
    assert [version.card for version in model.versions] == [None, None, None, None, card]
