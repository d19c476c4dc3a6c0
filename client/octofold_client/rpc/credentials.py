"""The credentials of a client: TLS files and a bearer token.

Files are read once, when the credentials are made. The token never appears in `repr` or in a message.
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
from octofold_client.rpc.targets import host_and_port, is_name, is_socket

TOKEN_VARIABLE = "OCTOFOLD_TOKEN"
"""Environment variable with the token, used if no token file is given."""


@dataclass(frozen=True)
class Credentials:
    """The credentials of a client. By default, the connection is plaintext, without a token.

    Authorities or a certificate imply TLS. A token is sent in plaintext only to servers on this machine.

    Raises:
        InvalidRequest: the certificate or its key is missing, or the token is not one word of printable ASCII
            characters.
    """

    tls: bool = False
    authorities: bytes | None = field(default=None, repr=False)
    """CA certificates to trust (PEM); None for the system's CA certificates."""
    certificate: bytes | None = field(default=None, repr=False)
    """This client's certificate and its chain (PEM)."""
    key: bytes | None = field(default=None, repr=False)
    """Private key of the certificate (PEM)."""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.token:
            _check_token(self.token, "Credentials")
        if any(file is not None for file in (self.authorities, self.certificate, self.key)):
            _check_pair(self.certificate, self.key)
            object.__setattr__(self, "tls", True)  # the dataclass is frozen

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
        """Read the credentials from the given files.

        Any TLS file implies TLS. Without a token file, the environment variable OCTOFOLD_TOKEN may contain
        the token.

        Raises:
            InvalidRequest: the certificate or its key is missing, or the token is invalid.
            OSError: a file cannot be read.
        """
        _check_pair(certificate, key)
        source: str | Path = TOKEN_VARIABLE
        text = environment.get(TOKEN_VARIABLE, "")
        if token is not None:
            source, text = token, token.read_text(encoding="utf-8", errors="replace")
        if text or token is not None:
            _check_token(text.strip(), source)
        return cls(
            tls=tls,
            authorities=None if authorities is None else authorities.read_bytes(),
            certificate=None if certificate is None else certificate.read_bytes(),
            key=None if key is None else key.read_bytes(),
            token=text.strip(),
        )

    def channel(self, api: Any, address: str, options: Any) -> Any:
        """Make a channel to an address with `api`, which is `grpc` or `grpc.aio`.

        Raises:
            InvalidRequest: the token would leave this machine in plaintext.
        """
        # A DNS name may stand for any machine.
        is_here = is_socket(address) or (not is_name(address) and _is_loopback(host_and_port(address)[0]))
        if is_here:
            # gRPC would use the proxy of http_proxy even for this machine, and send the token to it.
            options = (*options, ("grpc.enable_http_proxy", 0))
        if self.tls:
            files = grpc.ssl_channel_credentials(self.authorities, self.key, self.certificate)
            return api.secure_channel(address, files, options=options)
        if self.token and not is_here:
            raise InvalidRequest(f"{address}: a token needs TLS (--tls) unless the server is on this machine")
        return api.insecure_channel(address, options=options)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The gRPC metadata of every call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


PLAINTEXT = Credentials()


def _check_pair(certificate: object, key: object) -> None:
    if (certificate is None) != (key is None):
        raise InvalidRequest("a client certificate and its private key must be given together")


def _check_token(token: str, source: str | Path) -> None:
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise InvalidRequest(f"{source}: a token must be one word of printable ASCII characters")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
