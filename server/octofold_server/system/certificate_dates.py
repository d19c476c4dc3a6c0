"""Checks the dates of a certificate like a client, by a TLS handshake in memory.

Python's ssl module cannot read the dates of a server's own certificate.
"""

from __future__ import annotations

import ssl
from pathlib import Path

NOT_YET_VALID, EXPIRED = 9, 10  # OpenSSL's X509_V_ERR_CERT_...


def wrong_date(server: ssl.SSLContext, certificate: Path) -> str:
    """A client's error about the dates of a certificate in the context; empty if there is none."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # trust the certificate itself, whoever signed it
    try:
        client.load_verify_locations(certificate)
    except OSError:  # it is being replaced; the new one will also be checked
        return ""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for end in (*ends, *ends):  # the client sends its hello, and reads the certificate on its second turn
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (NOT_YET_VALID, EXPIRED):
            return error.verify_message
    except ssl.SSLError:  # another error, which clients will report
        pass
    return ""
