"""The exceptions that client and server share.

The server raises an error, its status travels over the wire, and the client raises the same error again.
`octofold_proto.status` maps errors to gRPC status codes. A malformed board is a `BoardError` of
`octofold_game.rules` on the server and an `InvalidRequest` on the client.
"""

from __future__ import annotations

from octofold_game.errors import OctofoldError


class InvalidRequest(OctofoldError, ValueError):
    """The request is malformed; none of it ran. If an exponent is too large, the message names the cell."""


class UnknownModel(OctofoldError, LookupError):
    """No model has this name, or the model has no ready version with this number."""


class QueueFull(OctofoldError):
    """Too many boards, calls, streams or bytes are in progress. The call did not run."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeadlinePassed(OctofoldError, TimeoutError):
    """The caller's deadline passed before all boards of the call were answered."""


class Unavailable(OctofoldError, ConnectionError):
    """The server or the model accepts no calls now, or no server answers at the address."""


class Unauthenticated(OctofoldError, PermissionError):
    """The call has no token or an unknown token. The call did not run."""


class NotAllowed(OctofoldError, PermissionError):
    """The token does not permit this call, or the call is disabled on the server."""


class ModelError(OctofoldError):
    """A model version cannot be served. A running server keeps serving the other versions."""


class BackendFailed(OctofoldError):
    """The server failed, usually in the backend; its log gives the reason, with the same `error_id`."""

    def __init__(self, message: str, error_id: str) -> None:
        super().__init__(message)
        self.error_id = error_id


class UnexpectedStatus(OctofoldError):
    """The call failed with a gRPC status that the service never sends; `code` is its `google.rpc.Code`."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
