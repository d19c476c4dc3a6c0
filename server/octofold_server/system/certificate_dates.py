"""Whether a certificate's dates are good, found as a client would find it: by a handshake, here in memory.

Python's ssl reads no dates of a server's own certificate. Knows nothing about ports.
"""

from __future__ import annotations

import ssl
from pathlib import Path

__all__ = ["wrong_date"]

NOT_YET_VALID, EXPIRED = 9, 10  # OpenSSL's X509_V_ERR_CERT_...


def wrong_date(server: ssl.SSLContext, certificate: Path) -> str:
    """What a client will say of the dates of the certificate that the context has from this file; empty if
    nothing."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whoever signed it, it vouches for itself here
    try:
        client.load_verify_locations(certificate)
    except OSError:  # it is being replaced; the new one will be looked at, too
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
    except ssl.SSLError:  # clients will say what is wrong with it; these are not its dates
        pass
    return ""
