"""gRPC's messages about failed connections are made readable. The messages are those of grpcio 1.85."""

import pytest
from octofold_client.rpc.connection_errors import explain

HERE = "here:1"
LAST = "failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("details", "tls", "said"),
    [
        (
            f"{LAST}UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
            False,
            "no Octofold server answers at here:1: Connection refused",
        ),
        (
            f"{LAST}UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed",
            False,
            "here:1 closed the connection: Socket closed (if it uses TLS, use --tls or --tls-ca)",
        ),
        (
            f"{LAST}UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: "
            "error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed certificate"
            ": OK",
            True,
            "the certificate of here:1 cannot be verified: self signed certificate "
            "(name the CA certificates to trust with --tls-ca)",
        ),
        (
            f"{LAST}UNKNOWN: ipv4:127.0.0.1:1: Custom verification check failed with error: UNAUTHENTICATED: "
            "Hostname Verification Check failed.",
            True,
            "the certificate of here:1 is not for this host name",
        ),
        (
            "errors resolving a:1: [field:hostname lookup error:address lookup failed for a:1]",
            False,
            "here:1: the host name cannot be resolved",
        ),
        (
            f"{LAST}UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2 (Expected SETTINGS frame as the "
            "first frame, got frame type 80) (Trying to connect an http1.x server (HTTP status 400))",
            False,
            "here:1 answers HTTP, not gRPC (perhaps it is the server's --rest-port; use its --port)",
        ),
        ("draining", False, None),
    ],
)
def test_the_message_has_the_reason_and_the_remedy(details: str, tls: bool, said: str | None) -> None:
    assert explain(details, HERE, tls=tls) == said
