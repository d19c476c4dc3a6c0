"""A call of one message on its way from its admission to its reply, when something on that way fails."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.rpc import code_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.admission.request import Request
from octofold_server.grpc_transport.unary import UnaryCalls
from support.fakes import FakeBackend
from support.servers import ServeAll
from support.waiting import wait_for


class Wire:
    """A call whose reply may fail to be sent."""

    metadata = ()
    deadline = float("inf")

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.on_left: Any = None
        self.codes: queue.Queue[int] = queue.Queue()

    def peer(self) -> str:
        return "test"

    def reply(self, message: bytes, trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        if self._error is not None:
            raise self._error
        self.codes.put(0)

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        self.codes.put(code)


class Codec:
    """Asks for the move of an empty board, and replies in its own way."""

    name = "Test"
    kind = pb.NextMoveRequest

    def __init__(self, reply: Callable[[], bytes]) -> None:
        self._reply = reply

    def request(self, _: pb.NextMoveRequest) -> Request:
        return Request("", "", np.zeros((1, 16), np.uint8))

    def request_id(self, _: pb.NextMoveRequest) -> str:
        return ""

    def reply(self, *_: object) -> bytes:
        return self._reply()


def no_reply() -> bytes:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("wire", "reply", "code"),
    [
        (Wire(), lambda: b"", 0),
        (Wire(), no_reply, code_pb2.INTERNAL),
        (Wire(ValueError("too large")), lambda: b"", code_pb2.INTERNAL),
    ],
)
def test_a_call_is_no_longer_at_work_whatever_becomes_of_its_reply(
    serve_all: ServeAll, wire: Any, reply: Callable[[], bytes], code: int
) -> None:
    with serve_all(FakeBackend()) as served:
        UnaryCalls(served.admission, Codec(reply)).take([(wire, b"")])
        assert wire.codes.get(timeout=30) == code
        wait_for(lambda: served.admission.open_calls == 0)
        assert wire.codes.empty()
