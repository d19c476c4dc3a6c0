"""What can go wrong between a client and the service, as exceptions that both ends share.

The server raises these and the client raises them again; neither names a gRPC status code, which is the job
of `octofold_proto.status`. A malformed board is `octofold_game.rules.BoardError` on the server, and reaches
the client as `InvalidRequest`.

    OctofoldError
     ├─ InvalidRequest      the request can never succeed as it is
     ├─ UnknownModel        no such model, or no such version of it
     ├─ QueueFull           too many boards are waiting: retry after a pause
     ├─ DeadlinePassed      the deadline passed before the answer was ready
     ├─ Unavailable         starting, draining, unloading, or not reachable
     ├─ Unauthenticated     no credentials, or none that the service knows
     ├─ NotAllowed          the credentials are good, but not for this; or it is switched off
     ├─ ModelError          a model version cannot be served as its files are
     ├─ BackendFailed       the model failed on this batch; the server's log has the same id
     └─ UnexpectedStatus    a status that the service never sends by itself, such as a proxy's
"""

from __future__ import annotations

__all__ = [
    "BackendFailed",
    "DeadlinePassed",
    "InvalidRequest",
    "ModelError",
    "NotAllowed",
    "OctofoldError",
    "QueueFull",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedStatus",
    "UnknownModel",
]


class OctofoldError(Exception):
    """Base of every error that crosses the wire."""


class InvalidRequest(OctofoldError, ValueError):
    """The request is malformed; nothing of it ran. The message names the first bad board and cell."""


class UnknownModel(OctofoldError, LookupError):
    """No model of that name, or no ready version of that number."""


class QueueFull(OctofoldError):
    """No room for this call now: in the queue, or among the calls and streams at work; nothing of it ran."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeadlinePassed(OctofoldError, TimeoutError):
    """The caller's deadline passed before every board of the call was answered."""


class Unavailable(OctofoldError, ConnectionError):
    """The service does not take calls now, or nothing answers at its address."""


class Unauthenticated(OctofoldError, PermissionError):
    """The call brought no token, or one that the service does not know; nothing of it ran."""


class NotAllowed(OctofoldError, PermissionError):
    """Not with this token, or not on this server, where it is switched off."""


class ModelError(OctofoldError):
    """Why a model version cannot be served; whatever served before goes on serving."""


class BackendFailed(OctofoldError):
    """The backend failed on the batch of this call; `error_id` finds the reason in the server's log."""

    def __init__(self, message: str, error_id: str) -> None:
        super().__init__(message)
        self.error_id = error_id


class UnexpectedStatus(OctofoldError):
    """A gRPC status outside the service's own table; `code` is its number in `google.rpc.Code`."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
