"""The exceptions of the client.

    OctofoldError
     ├─ InvalidRequest        the request is invalid; a retry cannot succeed
     ├─ UnknownModel          the server does not have this model or this version
     ├─ QueueFull             too many boards are waiting; retry after a pause
     ├─ DeadlinePassed        the deadline passed before the answer was ready
     ├─ Unavailable           the server or model is starting, draining, unloading or unreachable
     ├─ Unauthenticated       the credentials are missing or unknown
     ├─ NotAllowed            the credentials do not permit this, or the feature is disabled
     ├─ ModelError            the files of a model version cannot be served
     ├─ BackendFailed         the model failed on this batch; the server's log has the error's id
     ├─ UnexpectedStatus      the status is not one of the service; it may come from a proxy
     │   └─ NotOctofold       the server speaks gRPC, but not octofold.v1
     ├─ BrokenAnswer          the answer does not match the request or breaks the rules of the game
     ├─ ClientClosed          the client is closed, or belongs to another process or event loop
     ├─ BoardError            a board is malformed; nothing was sent
     ├─ ReplayError           a replay file is damaged
     ├─ EvaluationError       an evaluation, or work on its results, cannot start or continue
     │   ├─ UsageError        the arguments are invalid or contradict each other
     │   ├─ OtherEvaluation   games or answers belong to another player or seed
     │   └─ FolderInUse       another program is writing games into the folder
     ├─ LoadTestError         a load test cannot start or continue
     ├─ ClusterError          a Ray cluster cannot be joined, or its tasks fail
     └─ ServerDied            a server that this program started has ended or was not ready in time

The server sends the first nine as statuses; `octofold_proto.status` maps statuses to exceptions.
"""

from typing import Any

import grpc
from octofold_game.errors import OctofoldError
from octofold_game.referee import ReplayError
from octofold_game.rules import BoardError
from octofold_proto.errors import (
    BackendFailed,
    DeadlinePassed,
    InvalidRequest,
    ModelError,
    NotAllowed,
    QueueFull,
    Unauthenticated,
    Unavailable,
    UnexpectedStatus,
    UnknownModel,
)
from octofold_proto.status import error_of, status_of_call

__all__ = [
    "BackendFailed",
    "BoardError",
    "BrokenAnswer",
    "ClientClosed",
    "ClusterError",
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
    "ReplayError",
    "ServerDied",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedStatus",
    "UnknownModel",
    "UsageError",
]


class NotOctofold(UnexpectedStatus):
    """The server at this address speaks gRPC, but not octofold.v1."""


class BrokenAnswer(OctofoldError):
    """The answer does not match the request, or contains an illegal move."""


class ClientClosed(OctofoldError):
    """The client was closed, or was made in another event loop or before this process was forked."""


class EvaluationError(OctofoldError):
    """An evaluation, or work on its results, cannot start or continue; all games played so far are kept."""


class UsageError(EvaluationError):
    """The arguments are invalid, contradict each other, or do not suit the player or model."""


class OtherEvaluation(EvaluationError):
    """Games or answers belong to another evaluation, so they must not be mixed into this one.

    It is raised in four cases:

    - A result folder contains games of another player, player file, seed or slice than requested.
    - A server answers with other model files than at the start, under the same name and version.
    - The folders to merge contain games of different players, player files or seeds, or slices of different
      evaluations.
    - Games may belong to another player, because the player has no attribute `sha256` that identifies it.

    Nothing is overwritten. Continue with the earlier conditions, or use another folder.
    """


class FolderInUse(EvaluationError):
    """Another program is writing games into the folder."""


class LoadTestError(OctofoldError):
    """A load test cannot start or continue; everything measured so far is kept."""


class ClusterError(OctofoldError):
    """A Ray cluster cannot be joined, has no CPU for a local player, or its tasks fail repeatedly."""


class ServerDied(OctofoldError):
    """A server that this program started has ended or was not ready in time; the message quotes its log."""


def error_of_call(error: grpc.RpcError) -> OctofoldError:
    """Return the exception for a failed call of gRPC's sync or asyncio API."""
    # Errors of both APIs have these three methods, but grpc's base class does not declare them.
    call: Any = error
    code: grpc.StatusCode = call.code()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotOctofold("this gRPC server is not an Octofold server", code.value[0])
    return error_of(status_of_call(code, call.details(), call.trailing_metadata()))
