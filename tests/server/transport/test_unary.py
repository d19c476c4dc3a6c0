"""A call of one message on its way from the door to its reply, when something on that way fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.rpc import code_pb2
from octofold_server.admission.admission import Door, Ticket
from octofold_server.transport.unary import answer_later


class Call:
    """A call whose reply may fail to be sent."""

    metadata = ()
    deadline = float("inf")

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.on_left: Any = None
        self.codes: list[int] = []

    def peer(self) -> str:
        return "test"

    def reply(self, _: bytes) -> None:
        if self._error is not None:
            raise self._error
        self.codes.append(0)

    def end(self, code: int = 0, details: str = "", trailing: object = ()) -> None:  # noqa: ARG002 -- the method's
        self.codes.append(code)


@pytest.fixture
def door() -> Door:
    models: Any = None
    door = Door(models)
    door.open()
    return door


def answered_at_once(when_answered: Callable[[Any], None]) -> Any:
    ticket = Ticket(None, None, None)  # type: ignore[arg-type]  # nobody looks at its model
    when_answered(ticket)
    return ticket


def no_reply(_: Ticket) -> bytes:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("call", "reply", "code"),
    [
        (Call(), lambda _: b"", 0),
        (Call(), no_reply, code_pb2.INTERNAL),
        (Call(ValueError("too large")), lambda _: b"", code_pb2.INTERNAL),
    ],
)
def test_a_call_is_over_for_the_door_whatever_becomes_of_its_reply(
    door: Door, call: Any, reply: Callable[[Ticket], bytes], code: int
) -> None:
    answer_later(door, call, "Test", answered_at_once, reply)
    assert call.codes == [code]
    assert door.open_calls == 0
