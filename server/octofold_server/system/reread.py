"""Files that are read again when they change, such as certificates that are renewed while the server runs.

A file that cannot be used is an error at the start. Later it is logged, and the last good content stays in
force. Knows nothing about what is in the files.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["FileError", "Reread"]

SETTLED_SECONDS = 1.0
"""A file that has not changed for so long is taken to be whole, not in the middle of being written."""

EMPTY_SECONDS = 5.0
"""The same for a file that is empty or missing: whoever is writing it may take a while for the first byte."""

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
        look_seconds: minimum time between two looks at the files.
        settle: read changed files only once they have not changed for `SETTLED_SECONDS`, or `EMPTY_SECONDS`
            if one of them is empty or missing. For content of which a part looks like the whole.

    Raises:
        FileError: at the start, what `read` raises.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], Content],
        look_seconds: float = 0.0,
        *,
        settle: bool = False,
    ) -> None:
        self._paths = paths
        self._read = read
        self._look_seconds = look_seconds
        self._settle = settle
        self._unsettled: tuple[_Stamp, float] | None = None  # what was seen, and when first
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
            self._unsettled = None
            return
        if self._settle and not self._has_settled(stamp):
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

    def _has_settled(self, stamp: _Stamp) -> bool:
        """By the files' own times if these are old: then nobody has called since the change. Else, and for a
        clock that was set back, by how long they have looked the same here."""
        wanted = SETTLED_SECONDS if all(file is not None and file[1] for file in stamp) else EMPTY_SECONDS
        if time.time() - max(map(_changed_at, self._paths)) >= wanted:
            return True
        now = time.monotonic()
        if self._unsettled is None or self._unsettled[0] != stamp:
            self._unsettled = (stamp, now)
        return now - self._unsettled[1] >= wanted

    def _now(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _changed_at(path: Path) -> float:
    """When the file was last written, in Unix time; of one that is missing, when its folder lost it."""
    for place in (path, path.parent):
        try:
            return place.stat().st_mtime
        except OSError:
            continue
    return 0.0
