"""What every gRPC method does around its own work: the caller's identity and leaving, the end of a call that
went wrong, and a call of one message from there to its reply.

Knows nothing about the messages of any protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from octofold_proto.errors import InvalidRequest
from octofold_proto.status import DETAILS_KEY
from octofold_proto.wire import parsed

from octofold_server.admission.admission import TRACE_HEADERS, Door, Ticket, WhenAnswered, code_name
from octofold_server.admission.refusals import failure_status, request_id
from octofold_server.transport.interface import Call, Metadata

__all__ = [
    "REQUEST_ID_KEY",
    "answer_later",
    "decoded",
    "end_badly",
    "request_id_of",
    "trace_of",
]

REQUEST_ID_KEY = "x-request-id"
"""The metadata key under which a caller may name its call, and under which a failed call's id comes back."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


def answer_later(
    door: Door,
    call: Call,
    name: str,
    submit: Callable[[WhenAnswered], Ticket],
    reply: Callable[[Ticket], bytes],
    known_as: str = "",
) -> None:
    """Let a call of one message through the door, and reply to it once it is answered.

    Args:
        door: see there.
        call: ended here, by and by.
        name: of the method.
        submit: hands its boards to the door; raises what is wrong with them.
        reply: makes the reply of a ticket that has its answer; raises what became of it otherwise.
        known_as: see `end_badly`.
    """

    def answered(ticket: Ticket) -> None:
        try:
            call.reply(reply(ticket))
        except Exception as error:
            end_badly(call, error, name, known_as)
        finally:
            door.end_call()

    try:
        door.begin_call()
    except Exception as error:
        end_badly(call, error, name, known_as)
        return
    try:
        call.on_left = submit(answered).cancel
    except Exception as error:
        end_badly(call, error, name, known_as)
        door.end_call()


def decoded(kind: type[AnyMessage], message: bytes, name: str, door: Door) -> AnyMessage:
    """A message of this kind.

    Raises:
        InvalidRequest: the bytes are not such a message, or one with too much in it; that is counted.
    """
    try:
        return parsed(kind, message)
    except DecodeError:
        error = InvalidRequest(f"the bytes are no message of {name}")
    except InvalidRequest as too_much:
        error = too_much
    door.refusals.add(code_name(error))
    raise error


def trace_of(call: Call) -> dict[str, str]:
    """The caller's trace, for `Door.submit`."""
    return {name: str(value) for name, value in call.metadata if name in TRACE_HEADERS}


def request_id_of(metadata: Metadata) -> str:
    """The id of the call that came with this: its caller's, or a new one at each time of asking."""
    return request_id(next((str(value) for key, value in metadata if key == REQUEST_ID_KEY), None))


def end_badly(call: Call, error: Exception, name: str, known_as: str = "") -> None:
    """End the call with the status of an exception, and tell its id.

    Args:
        call: to be ended.
        error: see `failure_status`.
        name: of the method.
        known_as: the call's id, where the protocol has a place for it of its own.
    """
    identity = known_as or request_id_of(call.metadata)
    status = failure_status(error, name, identity, call.peer())
    trailing = ((DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, identity))
    call.end(status.code, status.message, trailing)
