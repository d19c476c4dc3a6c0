"""Why a connection failed, in plain words: gRPC's own name files of the SSL library and end with "OK"."""

import re
import socket
import ssl

PROBE_SECONDS = 2.0
_VERIFY = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<reason>.*?)(: OK)?$")
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
_CLOSED = ("Socket closed", "Connection reset")


def explain(details: str, target: str, *, tls: bool) -> str | None:
    """What to tell people about the `details` of a call that could not connect to `target`, with or without
    TLS; None for details of anything else.
    """
    if "errors resolving" in details or "DNS resolution failed" in details:
        return f"{target}: the name of the host cannot be resolved"
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
        return f"{target} does not speak TLS (leave --tls and its files out)"
    if "security handshaker" in details:
        return f"TLS to {target} cannot be set up: --tls-ca, --tls-certificate or --tls-key is wrong"
    reason = details.rpartition(": ")[2]
    if not tls and any(sign in details for sign in _CLOSED):
        return f"{target} closed the connection: {reason} (if it speaks TLS, use --tls or --tls-ca)"
    return f"no octofold server answers at {target}: {reason}"


def speaks_tls(target: str) -> bool:
    """Whether the server at `target` answers a TLS handshake; for when plaintext has failed there."""
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: who answers does not matter
    try:
        with (
            socket.create_connection((host, int(port)), PROBE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):
        return False
