"""Has gRPC's C core read connections in the thread that waits for calls, and not in threads of its own.

Newer releases have a pool that reads and then wakes whoever waits. So each message wakes one more
thread, a fifth of what a call costs the server besides inference. Knows nothing about calls.
"""

from __future__ import annotations

import os

__all__ = ["read_where_calls_are_awaited"]

_VARIABLE = "GRPC_EXPERIMENTS"
_NO_POOL = "-event_engine_listener"


def read_where_calls_are_awaited() -> None:
    """Takes effect if gRPC is loaded afterwards, unless the environment says which experiments are to be."""
    os.environ.setdefault(_VARIABLE, _NO_POOL)
