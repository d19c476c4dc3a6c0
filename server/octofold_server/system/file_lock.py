"""A lock that several processes share, which is a file in a common folder."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

WAIT_SECONDS = 0.05


@contextmanager
def locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a file. The system releases it if the process ends.

    Args:
        path: the file; it is created if it does not exist.
        on_wait: called again and again while somebody else holds the lock; its exceptions end the wait.
    """
    with path.open("wb") as file:  # opened for each use, so that threads of one process also wait
        while not _try_lock(file):
            on_wait()
            time.sleep(WAIT_SECONDS)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    """Take the lock, and return True; return False if somebody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
