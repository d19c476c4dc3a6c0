"""Explains why a connection failed, in plain words. gRPC's messages name source files and end with "OK"."""

import re
import socket
import ssl

from octofold_client.rpc.targets import host_and_port, is_socket

HANDSHAKE_TIMEOUT_SECONDS = 2.0
_VERIFY = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<reason>.*?)(: OK)?$")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
_OTHER_HOST = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL
_CLOSED = ("Socket closed", "Connection reset")
_HTTP_1 = "http1.x server"


def explain(details: str, target: str, *, tls: bool) -> str | None:
    """Return why a call could not connect to `target`, from gRPC's `details`; None for other failures."""
    if "backend unhealthy" in details:
        return f"{target}: no server there is ready"
    if "errors resolving" in details or "DNS resolution failed" in details:
        return f"{target}: the host name cannot be resolved"
    if "failed to connect" not in details and "backends failing" not in details:
        return None
    if match := _VERIFY.search(details):
        return _not_verified(target, match["reason"])
    if "Hostname Verification" in details:
        return _not_for_host(target)
    if tls and any(sign in details for sign in _NOT_TLS):
        return f"{target} does not use TLS (leave out --tls and its files)"
    if "security handshaker" in details:
        return f"TLS to {target} cannot be set up: --tls-ca, --tls-certificate or --tls-key is wrong"
    if _HTTP_1 in details:
        return f"{target} answers HTTP, not gRPC (perhaps it is the server's --rest-port; use its --port)"
    reason = details.rpartition(": ")[2]
    if not tls and any(sign in details for sign in _CLOSED):
        return f"{target} closed the connection: {reason} (if it uses TLS, use --tls or --tls-ca)"
    return f"no Octofold server answers at {target}: {reason}"


def explain_tls(target: str, authorities: bytes | None) -> str | None:
    """Return why the certificate of `target` is not accepted; None if it is, or after any other failure.

    gRPC reports only the failure of the last address. If a host has an IPv6 and an IPv4 address and listens
    on only one of them, "Connection refused" may hide a wrong certificate.

    Args:
        target: address of the server, HOST:PORT.
        authorities: CA certificates to trust (PEM); None for the system's CA certificates.
    """
    try:
        context = ssl.create_default_context(
            cadata=None if authorities is None else authorities.decode("ascii")
        )
        _shake_hands(target, context)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _OTHER_HOST:
            return _not_for_host(target)
        return _not_verified(target, error.verify_message)
    except (OSError, ValueError):
        return None
    return None


def speaks_tls(target: str) -> bool:
    """Return whether the server at `target` completes a TLS handshake."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, so the identity does not matter

    try:
        _shake_hands(target, context)
    except (OSError, ValueError):
        return False
    return True


def _shake_hands(target: str, context: ssl.SSLContext) -> None:
    if is_socket(target):
        raise ValueError("a Unix socket has no host name")
    host, port = host_and_port(target)
    with (
        socket.create_connection((host, port), HANDSHAKE_TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=host),
    ):
        pass


def _not_for_host(target: str) -> str:
    return f"the certificate of {target} is not for this host name"


def _not_verified(target: str, reason: str) -> str:
    return (
        f"the certificate of {target} cannot be verified: {reason} "
        "(name the CA certificates to trust with --tls-ca)"
    )
