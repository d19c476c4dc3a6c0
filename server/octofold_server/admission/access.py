"""Authorization: bearer tokens, the rights that they grant, and the right that each gRPC method requires.

The server checks the token of a call before it decodes a message.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from enum import Enum
from pathlib import Path

from octofold_game.system.files import read_regular
from octofold_proto.errors import NotAllowed, Unauthenticated

from octofold_server.admission.admission import code_name
from octofold_server.admission.refusals import Refusals
from octofold_server.admission.request import Headers
from octofold_server.system.watched_files import FileError, WatchedFiles

MAX_FILE_BYTES = 1 << 24

AUTHORIZATION_KEY = "authorization"

_log = logging.getLogger(__name__)


class Right(Enum):
    """The right that a call requires."""

    NOTHING = 0  # health probes, which cannot send a token
    CALL = 1
    ADMIN = 2  # to load and unload models


_RIGHTS = {
    "/grpc.health.v1.Health/Check": Right.NOTHING,
    "/grpc.health.v1.Health/Watch": Right.NOTHING,
    "/inference.GRPCInferenceService/ServerLive": Right.NOTHING,
    "/inference.GRPCInferenceService/ServerReady": Right.NOTHING,
    "/inference.GRPCInferenceService/RepositoryModelLoad": Right.ADMIN,
    "/inference.GRPCInferenceService/RepositoryModelUnload": Right.ADMIN,
}
"""The rights that gRPC methods require, by path. A method that is not listed requires `Right.CALL`."""


class Access:
    """Checks whether calls have the right that they require. Without token files, no call needs a token.

    Args:
        tokens: file of the tokens that grant `Right.CALL`; None for no file.
        admin_tokens: file of the tokens that grant `Right.CALL` and `Right.ADMIN`; None for no file.
        admin: whether the server allows administrative calls at all.
        refusals: counts the calls that are refused here.

    Raises:
        FileError: a file cannot be read, contains no tokens, or contains an invalid line.
    """

    def __init__(
        self, tokens: Path | None, admin_tokens: Path | None, *, admin: bool, refusals: Refusals
    ) -> None:
        self._plain = _watch_tokens(tokens)
        self._admin = _watch_tokens(admin_tokens)
        self._admin_enabled = admin
        self._refusals = refusals

    @property
    def open(self) -> bool:
        """Whether every call is allowed without a token."""
        return self._plain is None and self._admin is None and self._admin_enabled

    @property
    def tokens(self) -> tuple[tuple[bytes, ...], ...]:
        """The digests of all valid tokens, grouped by file. They change when a file changes."""
        return tuple(file.content for file in (self._plain, self._admin) if file is not None)

    def check(self, authorization: str | None, right: Right) -> None:
        """Check that a call has the right that it requires.

        Args:
            authorization: the value of `authorization` in the call's metadata or headers; None if missing.
            right: the right that the call requires.

        Raises:
            Unauthenticated: the call requires a token, and its token is missing, malformed or unknown.
            NotAllowed: the token does not grant the right, or the server does not allow administrative calls.
        """
        try:
            self._check(authorization, right)
        except (Unauthenticated, NotAllowed) as error:
            self._refusals.add(code_name(error))
            raise

    def check_call(self, path: str, metadata: Headers) -> None:
        """Check that a gRPC call has the right that its method requires.

        Args:
            path: the path of the method, such as "/package.Service/Method".
            metadata: the metadata of the call.

        Raises:
            Unauthenticated, NotAllowed: as in `check`.
        """
        token = next((value for key, value in metadata if key == AUTHORIZATION_KEY), None)
        self.check(str(token) if token else None, _RIGHTS.get(path, Right.CALL))

    def _check(self, authorization: str | None, right: Right) -> None:
        if right is Right.NOTHING:
            return
        if self._plain is not None or (self._admin is not None and right is Right.ADMIN):
            digest = _digest(_token_of(authorization))
            is_admin, is_plain = _holds(self._admin, digest), _holds(self._plain, digest)
            if not (is_admin or is_plain):
                raise Unauthenticated("unknown token")
            if right is Right.ADMIN and not is_admin:
                raise NotAllowed("this call needs a token from the server's --admin-tokens file")
        if right is Right.ADMIN and not self._admin_enabled:
            raise NotAllowed("this server runs with --no-admin, so calls cannot load or unload models")


def _token_of(authorization: str | None) -> str:
    if not authorization:
        raise Unauthenticated("no token: the call needs 'authorization: Bearer TOKEN'")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("authorization must be 'Bearer TOKEN'")
    return token.strip()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _holds(tokens: WatchedFiles[tuple[bytes, ...]] | None, digest: bytes) -> bool:
    """Return whether `tokens` contains a digest. The time does not depend on where two digests differ."""
    known = tokens.content if tokens is not None else ()
    return sum(hmac.compare_digest(digest, one) for one in known) > 0


def _watch_tokens(path: Path | None) -> WatchedFiles[tuple[bytes, ...]] | None:
    if path is None:
        return None
    _read_tokens(path)  # an empty file is an error at start, but not later

    def read() -> tuple[bytes, ...]:
        try:
            return _read_tokens(path)
        except _NoTokens as error:
            _log.error("%s; the tokens that it contained are revoked", error)
            return ()

    return WatchedFiles([path], read).watch()


class _NoTokens(FileError):
    """A token file is empty or missing. While the server runs, this revokes all tokens of the file."""


def _read_tokens(path: Path) -> tuple[bytes, ...]:
    try:
        lines = read_regular(path, MAX_FILE_BYTES).decode().splitlines()
    except OSError as error:
        kind = _NoTokens if isinstance(error, FileNotFoundError) else FileError
        raise kind(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FileError(f"{path} must be UTF-8 text, one token per line") from error
    tokens = []
    for number, line in enumerate(lines, start=1):
        token = line.strip()
        if not token:
            continue
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise FileError(f"{path}: line {number} is not a token of visible ASCII characters")
        tokens.append(_digest(token))
    if not tokens:
        raise _NoTokens(f"{path} contains no tokens")
    return tuple(tokens)
