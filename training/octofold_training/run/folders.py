"""Locks the folder of a run, so that only one process trains in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octofold_game.system.files import why_not_writable

from octofold_training.errors import TrainingError


@contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Create `folder` if missing, and lock it: two processes would mix their states and histories.

    The lock ends with the process, however that ends. The locked file holds the number of the process, so
    that a benchmark can stop it for a while (`bench/harness.py`).

    Raises:
        TrainingError: another process holds it, or it cannot be written.
    """
    if reason := why_not_writable(folder):
        raise TrainingError(reason)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(f"{folder}: another process is training in this folder") from None
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield
