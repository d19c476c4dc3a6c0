"""Imports gRPC without the log lines of its C library, which would go to standard error.

What they say, such as that a handshake failed, is in the errors of the calls too. GRPC_VERBOSITY, where it is
set, is obeyed.
"""

import os

_VARIABLE = "GRPC_VERBOSITY"

if _VARIABLE not in os.environ:
    # gRPC reads it once, when it is imported; other programs that we start are not to inherit it.
    os.environ[_VARIABLE] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ[_VARIABLE]
