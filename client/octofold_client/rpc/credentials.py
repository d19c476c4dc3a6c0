"""How a client proves who it is, and by whom it lets a server prove that: TLS files and a bearer token.

Files are read once, when the credentials are made. The token never shows in a representation or a message.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from octofold_client.errors import InvalidRequest

__all__ = ["PLAINTEXT", "Credentials"]

TOKEN_VARIABLE = "OCTOFOLD_TOKEN"
"""Where a token may be found that no file is named for."""


@dataclass(frozen=True)
class Credentials:
    """Nothing by default: plaintext, and no token.

    A token in plaintext goes to this machine only: to any other server, TLS is needed.
    """

    tls: bool = False
    authorities: bytes | None = field(default=None, repr=False)
    """PEM of the authorities that may vouch for the server; None: those that the system trusts."""
    certificate: bytes | None = field(default=None, repr=False)
    """PEM of this client's certificate and those above it, for a server that asks for one."""
    key: bytes | None = field(default=None, repr=False)
    """PEM of its private key."""
    token: str = field(default="", repr=False)

    @classmethod
    def from_files(
        cls,
        *,
        tls: bool = False,
        authorities: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        token: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Credentials:
        """Read the files that are given; any of TLS's means TLS. Without a token file, the token is that of
        the environment variable OCTOFOLD_TOKEN, if there is one.

        Raises `InvalidRequest` for a certificate without its key, and for a token that is none; `OSError` for
        a file that cannot be read.
        """
        if (certificate is None) != (key is None):
            raise InvalidRequest("a client's certificate and its key are given together, or neither")
        return cls(
            tls=tls or authorities is not None or certificate is not None,
            authorities=None if authorities is None else authorities.read_bytes(),
            certificate=None if certificate is None else certificate.read_bytes(),
            key=None if key is None else key.read_bytes(),
            token=environment.get(TOKEN_VARIABLE, "") if token is None else _token(token),
        )

    def channel(self, flavour: Any, target: str, options: Any) -> Any:
        """A channel to `target` ("host:port"), made by `flavour`: `grpc` or `grpc.aio`.

        Raises `InvalidRequest` if a token would leave this machine in plaintext.
        """
        if self.tls:
            files = grpc.ssl_channel_credentials(self.authorities, self.key, self.certificate)
            return flavour.secure_channel(target, files, options=options)
        if self.token and not _is_loopback(target.rpartition(":")[0]):
            raise InvalidRequest(f"{target}: a token is sent to another machine over TLS only")
        return flavour.insecure_channel(target, options=options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What every call brings along."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


PLAINTEXT = Credentials()


def _token(file: Path) -> str:
    token = file.read_text(encoding="utf-8", errors="replace").strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise InvalidRequest(f"{file}: holds no token, which is one word of printable ASCII")
    return token


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
