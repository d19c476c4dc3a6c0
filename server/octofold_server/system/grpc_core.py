"""Has gRPC's C core read connections in the thread that waits for calls, and not in threads of its own.

Newer releases have a pool that reads and then wakes whoever waits. So each message wakes one more
thread, a fifth of what a call costs the server besides inference. The flag that says so is an experiment of
gRPC, which a release may drop.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

__all__ = ["knows_our_experiment", "read_where_calls_are_awaited"]

_VARIABLE = "GRPC_EXPERIMENTS"
_EXPERIMENT = "event_engine_listener"
_NO_POOL = f"-{_EXPERIMENT}"


def read_where_calls_are_awaited() -> None:
    """Takes effect if gRPC is loaded afterwards, unless the environment says which experiments are to be."""
    os.environ.setdefault(_VARIABLE, _NO_POOL)


def knows_our_experiment(library: Path) -> bool:
    """Whether gRPC's compiled library has the experiment, by its name among its strings."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(f"\0{_EXPERIMENT}\0".encode()) >= 0
