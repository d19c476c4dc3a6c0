"""Everything that the client raises on purpose, in one tree.

    OctofoldError
     ├─ InvalidRequest        the request can never succeed as it is
     ├─ UnknownModel          no such model, or no such version of it
     ├─ QueueFull             too many boards are waiting: retry after a pause
     ├─ DeadlinePassed        the deadline passed before the answer was ready
     ├─ Unavailable           starting, draining, unloading, or not reachable
     ├─ Unauthenticated       no credentials, or none that the service knows
     ├─ NotAllowed            the credentials are good, but not for this; or it is switched off
     ├─ ModelError            a model version cannot be served as its files are
     ├─ BackendFailed         the model failed on this batch; the server's log has the same id
     ├─ UnexpectedStatus      a status that the service never sends by itself, such as a proxy's
     │   └─ NotOctofold       a gRPC server answers there, but it does not speak octofold.v1
     ├─ BrokenAnswer          an answer that contradicts the question or the rules
     ├─ ClientClosed          this program has closed the client, or forked since it was made
     ├─ EvaluationError       an evaluation cannot start, or cannot go on
     │   ├─ OtherEvaluation   the folder holds games that were played under other conditions
     │   └─ FolderInUse       another program is playing games into the folder
     ├─ LoadTestError         a load test cannot start, or cannot go on
     └─ ServerDied            a server that this program started has ended

The first nine and `UnexpectedStatus` come over the wire, by the inverse of the server's own status table
(`octofold_proto.status`). A board that is malformed before it is sent is `octofold_game.rules.BoardError`, a
broken replay file `octofold_game.replays.ReplayError`.
"""

from typing import Any

import grpc
from octofold_proto.errors import (
    BackendFailed,
    DeadlinePassed,
    InvalidRequest,
    ModelError,
    NotAllowed,
    OctofoldError,
    QueueFull,
    Unauthenticated,
    Unavailable,
    UnexpectedStatus,
    UnknownModel,
)
from octofold_proto.status import error_of, status_of_call

__all__ = [
    "BackendFailed",
    "BrokenAnswer",
    "ClientClosed",
    "DeadlinePassed",
    "EvaluationError",
    "FolderInUse",
    "InvalidRequest",
    "LoadTestError",
    "ModelError",
    "NotAllowed",
    "NotOctofold",
    "OctofoldError",
    "OtherEvaluation",
    "QueueFull",
    "ServerDied",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedStatus",
    "UnknownModel",
    "error_of_call",
]


class NotOctofold(UnexpectedStatus):
    """The server at this address does not know the method: it speaks gRPC, but not octofold.v1."""


class BrokenAnswer(OctofoldError):
    """An answer that cannot be right: of another length than the question, or an illegal move."""


class ClientClosed(OctofoldError):
    """The client has no connection any more: it was closed, or this process is a fork of its own."""


class EvaluationError(OctofoldError):
    """An evaluation cannot start or go on; what was played before is kept."""


class OtherEvaluation(EvaluationError):
    """The folder holds games of another model, version, file or seed; mixing them would mean nothing."""


class FolderInUse(EvaluationError):
    """Another program is playing games into the folder right now."""


class LoadTestError(OctofoldError):
    """A load test cannot start or go on; what was measured before is kept."""


class ServerDied(OctofoldError):
    """A server that this program started ended by itself; the message ends with the last lines of its log."""


def error_of_call(error: grpc.RpcError) -> OctofoldError:
    """The exception of a call that failed, in the sync or the asyncio flavour of gRPC."""
    # Errors of both flavours carry these three, though grpc's base class does not say so.
    call: Any = error
    code: grpc.StatusCode = call.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotOctofold("no octofold server answers there, but another gRPC server", code.value[0])
    return error_of(status_of_call(code, call.details(), call.trailing_metadata()))
