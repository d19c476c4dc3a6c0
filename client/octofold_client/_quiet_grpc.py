"""Imports gRPC without the log lines that its C library would print to standard error.

Failed calls raise errors that report the same problems. If the user has set GRPC_VERBOSITY, its value is
kept.
"""

import os

_VARIABLE = "GRPC_VERBOSITY"

if _VARIABLE not in os.environ:
    # gRPC reads GRPC_VERBOSITY once, at import. Programs that we start must not inherit it.
    os.environ[_VARIABLE] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ[_VARIABLE]
