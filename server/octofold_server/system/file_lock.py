"""A lock between processes: a file in a folder that they share."""

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
    """Hold a lock on a file during the block. The system releases the lock if the process ends.

    Args:
        path: the file; it is created if it does not exist.
        on_wait: called repeatedly while another process or thread holds the lock; its exceptions end the
            wait.
    """
    with path.open("wb") as file:  # opened for each use, so that threads of one process also wait
        while not _try_lock(file):
            on_wait()
            time.sleep(WAIT_SECONDS)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    """Take the lock and return True, or return False if another process or thread holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
