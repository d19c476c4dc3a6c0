"""Explains why a connection failed; gRPC's messages name files of the SSL library and end with "OK"."""

import re
import socket
import ssl

PROBE_SECONDS = 2.0
_VERIFY = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<reason>.*?)(: OK)?$")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
_CLOSED = ("Socket closed", "Connection reset")


def explain(details: str, target: str, *, tls: bool) -> str | None:
    """A message for the `details` of a call that could not connect to `target`; None for other details."""
    if "errors resolving" in details or "DNS resolution failed" in details:
        return f"{target}: the host name cannot be resolved"
    if "failed to connect" not in details:
        return None
    if match := _VERIFY.search(details):
        return (
            f"the certificate of {target} cannot be verified: {match['reason']} "
            "(name the CA certificates to trust with --tls-ca)"
        )
    if "Hostname Verification" in details:
        return f"the certificate of {target} is not for this host name"
    if tls and any(sign in details for sign in _NOT_TLS):
        return f"{target} does not use TLS (leave out --tls and its files)"
    if "security handshaker" in details:
        return f"TLS to {target} cannot be set up: --tls-ca, --tls-certificate or --tls-key is wrong"
    reason = details.rpartition(": ")[2]
    if not tls and any(sign in details for sign in _CLOSED):
        return f"{target} closed the connection: {reason} (if it uses TLS, use --tls or --tls-ca)"
    return f"no Octofold server answers at {target}: {reason}"


def speaks_tls(target: str) -> bool:
    """Whether the server at `target` answers a TLS handshake."""
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, so the identity does not matter

    try:
        with (
            socket.create_connection((host, int(port)), PROBE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):
        return False
