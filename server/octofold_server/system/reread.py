"""Files that are read again when they change, such as certificates that are renewed while the server runs.

What cannot be used is refused at the start, and later logged while the last good content stays in force.
Knows nothing about what is in the files.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["FileError", "Reread"]

Content = TypeVar("Content")
_Stamp = tuple[tuple[int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class FileError(Exception):
    """A file that the server needs is missing, or is not what it should be; the message names it."""


class Reread(Generic[Content]):
    """What was read from some files, and is read again when any of them changes.

    Args:
        paths: the files.
        read: reads them all; raises FileError.
        look_seconds: between two looks at the files at least.

    Raises:
        FileError: at the start, what `read` raises.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], Content], look_seconds: float = 0.0) -> None:
        self._paths = paths
        self._read = read
        self._look_seconds = look_seconds
        self._looked = time.monotonic()
        self._lock = threading.Lock()
        self._stamp = self._now()
        self._content = read()

    def current(self) -> Content:
        """The newest content that was good."""
        now = time.monotonic()
        if now - self._looked >= self._look_seconds:
            with self._lock:
                self._looked = now
                self._look()
        return self._content

    def _look(self) -> None:
        stamp = self._now()
        if stamp == self._stamp:
            return
        names = ", ".join(map(str, self._paths))
        try:
            content = self._read()
        except FileError as error:
            _log.error("%s has changed and is not used: %s", names, error)
        else:
            if self._now() != stamp:
                return  # it is being written: the next look reads all of it
            self._content = content
            _log.info("%s was read again", names)
        self._stamp = stamp

    def _now(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
