"""Every domain error has a status code, and the client raises the error that the server raised."""

from __future__ import annotations

import grpc
import octofold_proto.errors as errors
import pytest
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import RequestInfo
from google.rpc.status_pb2 import Status
from octofold_game.errors import OctofoldError
from octofold_game.rules import BoardError
from octofold_proto.status import CODES, DETAILS_KEY, error_of, grpc_code, status_of, status_of_call

RAISED = [
    errors.InvalidRequest("board 3, cell 5 is wrong"),
    errors.UnknownModel("no model nobody"),
    errors.QueueFull("no room", 0.25),
    errors.DeadlinePassed("too late"),
    errors.Unavailable("starting"),
    errors.Unauthenticated("no token"),
    errors.NotAllowed("no admin token"),
    errors.ModelError("not the file that the card describes"),
    errors.BackendFailed("failed (error abc123)", "abc123"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_the_client_raises_what_the_server_raised(error: OctofoldError) -> None:
    restored = error_of(status_of(error))
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert vars(restored) == vars(error)


def test_every_error_that_the_service_raises_is_in_the_table() -> None:
    kinds = OctofoldError.__subclasses__()
    shared = {kind for kind in kinds if kind.__module__ == errors.__name__}  # not the client's
    raised = shared - {errors.UnexpectedStatus}  # only clients raise this error
    assert set(CODES) == raised | {BoardError}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BoardError("board 3, cell 5"), "INVALID_ARGUMENT"),
        (RAISED[0], "INVALID_ARGUMENT"),
        (RAISED[1], "NOT_FOUND"),
        (RAISED[2], "RESOURCE_EXHAUSTED"),
        (RAISED[3], "DEADLINE_EXCEEDED"),
        (RAISED[4], "UNAVAILABLE"),
        (RAISED[5], "UNAUTHENTICATED"),
        (RAISED[6], "PERMISSION_DENIED"),
        (RAISED[7], "FAILED_PRECONDITION"),
        (RAISED[8], "INTERNAL"),
    ],
)
def test_every_error_has_the_code_of_the_contract(error: Exception, code: str) -> None:
    assert grpc_code(status_of(error)).name == code


def test_a_bad_board_reaches_the_client_as_an_invalid_request_with_its_message() -> None:
    restored = error_of(status_of(BoardError("board 3, cell 5: no")))
    assert isinstance(restored, errors.InvalidRequest)
    assert str(restored) == "board 3, cell 5: no"


def test_every_error_carries_the_id_of_the_call_except_a_failed_batch() -> None:
    for error in RAISED:
        request = RequestInfo()
        assert any(detail.Unpack(request) for detail in status_of(error, "call-7").details)
        assert request.request_id == getattr(error, "error_id", "call-7")


@pytest.mark.parametrize(
    "code",
    [Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.UNIMPLEMENTED, Code.ABORTED, 77],
)
def test_a_status_that_the_service_never_sends_is_unexpected(code: int) -> None:
    error = error_of(Status(code=code, message="from elsewhere"))
    assert isinstance(error, errors.UnexpectedStatus)
    assert error.code == code
    assert "from elsewhere" in str(error)


def test_a_call_that_reaches_a_stopping_server_is_unavailable() -> None:
    assert isinstance(error_of(Status(code=Code.CANCELLED)), errors.Unavailable)


@pytest.mark.parametrize(
    "trailing",
    [
        None,
        (),
        ((DETAILS_KEY, b"\xff\xff"),),
        ((DETAILS_KEY, Status(code=Code.NOT_FOUND, message="another").SerializeToString()),),
    ],
)
def test_missing_unreadable_or_contradictory_details_are_ignored(
    trailing: tuple[tuple[str, bytes], ...] | None,
) -> None:
    plain = Status(code=Code.UNAVAILABLE, message="gone")
    assert status_of_call(grpc.StatusCode.UNAVAILABLE, "gone", trailing) == plain
