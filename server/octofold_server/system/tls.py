"""TLS for gRPC and HTTP: allowed versions, the server's certificate, and CA certificates to check clients.

Both ports accept TLS 1.2 and newer. Renewed files are used for new connections within seconds.
"""

from __future__ import annotations

import codecs
import re
import ssl
from pathlib import Path
from typing import NamedTuple

import grpc
from octofold_game.system.files import read_regular

from octofold_server.system.watched_files import FileError, WatchedFiles

HTTP_MINIMUM_TLS_VERSION = ssl.TLSVersion.TLSv1_2
"""The oldest version of TLS that the HTTP port accepts. It is also the default of gRPC."""

MAX_FILE_BYTES = 1 << 22

ENCRYPTED = re.compile(rb"^(-----BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED)", re.MULTILINE)
"""The beginnings of lines that mark an encrypted key, in PKCS #8 and in OpenSSL's older format."""


class _Material(NamedTuple):
    """The content of the files, and a context that uses them."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None
    context: ssl.SSLContext


class Tls:
    """TLS from PEM files. With `client_ca`, clients need a certificate that a CA in this file has signed.

    Raises:
        FileError: a file cannot be read or is invalid, or the key does not belong to the certificate.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        paths = [path for path in (certificate, key, client_ca) if path is not None]
        self._files = WatchedFiles(paths, self._read).watch()
        self._given = self._files.content

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of the gRPC port."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._given),
            self._renewed,  # type: ignore[arg-type]  # the stubs do not declare that it may return None
            require_client_authentication=self._client_ca is not None,
        )

    def context(self) -> ssl.SSLContext:
        """Return a context for Python's sockets. It uses the newest valid files for each new connection."""
        context = self._files.content.context

        def use_newest(connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: object) -> None:
            connection.context = self._files.content.context

        context.sni_callback = use_newest  # called even if the client names no server
        return context

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a new configuration, or None to keep the last one. gRPC calls this before each handshake."""
        newest = self._files.content
        if newest is self._given:
            return None
        self._given = newest
        return _configuration(newest)

    def _read(self) -> _Material:
        context = _server_context()
        self._load_into(context)  # also checks that the key belongs to the certificate
        client_ca = _content(self._client_ca) if self._client_ca is not None else None
        return _Material(_content(self._key), _content(self._certificate), client_ca, context)

    def _load_into(self, context: ssl.SSLContext) -> None:
        for path in (self._certificate, self._key, self._client_ca):
            if path is not None:
                content = _content(path)  # read here, because the errors of the context do not name the file
                if content.startswith(codecs.BOM_UTF8):  # OpenSSL ignores the mark, but gRPC refuses the file
                    raise FileError(f"{path} begins with a byte order mark; save it without one")
                if ENCRYPTED.search(content):
                    raise FileError(f"{path} is encrypted; the server needs a key without a passphrase")
        try:
            context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (OSError, ValueError) as error:
            raise FileError(
                f"{self._certificate} and {self._key} are not a certificate and its key: {_reason(error)}"
            ) from error
        if self._client_ca is not None:
            try:
                context.load_verify_locations(self._client_ca)
            except (OSError, ValueError) as error:
                raise FileError(f"{self._client_ca} contains no certificates: {_reason(error)}") from error
            context.verify_mode = ssl.CERT_REQUIRED


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = HTTP_MINIMUM_TLS_VERSION
    # Sessions are not resumed, because that would admit a client whose certificate is no longer valid.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error


def _configuration(material: _Material) -> grpc.ServerCertificateConfiguration:
    pairs = [(material.key, material.certificate)]
    return grpc.ssl_server_certificate_configuration(pairs, material.client_ca)


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
