"""Makes gRPC's C core read connections in the thread that waits for calls, not in threads of its own.

Newer releases have a pool that reads and then wakes the waiting thread. Each message thus wakes one more
thread, which is a fifth of the cost of a call besides inference. The setting is an experiment flag of gRPC,
which a release may drop.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_VARIABLE = "GRPC_EXPERIMENTS"
_EXPERIMENT = "event_engine_listener"
_NO_POOL = f"-{_EXPERIMENT}"


def read_where_calls_are_awaited() -> None:
    """Set the flag for a gRPC that is loaded later, unless the environment already sets experiments."""
    os.environ.setdefault(_VARIABLE, _NO_POOL)


def knows_our_experiment(library: Path) -> bool:
    """Whether gRPC's compiled library contains the name of the experiment."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(f"\0{_EXPERIMENT}\0".encode()) >= 0
