"""Reads files again when they change, such as certificates that are renewed while the server runs.

A file that cannot be used is an error at the start. Later it is logged, and the last good content stays in
use. A thread of its own looks at the files, so that calls do not wait for a file system.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from octofold_game.errors import OctofoldError

LOOK_SECONDS = 1.0
"""Time between two looks at watched files."""

SETTLED_SECONDS = 1.0
"""A file that has not changed for this long counts as complete."""

EMPTY_SECONDS = 5.0
"""The same for a file that is empty or missing, because its writer may need time for the first byte."""

Content = TypeVar("Content")
_Stamp = tuple[tuple[int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class FileError(OctofoldError):
    """A file is missing or invalid; the message names it."""


class Reread(Generic[Content]):
    """The content of some files, which is read again when one of them changes.

    Args:
        paths: the files.
        read: reads all files, or raises FileError.
        settle: whether to wait until the files have not changed for `SETTLED_SECONDS`, or for `EMPTY_SECONDS`
            if one of them is empty or missing. Use it if a part of the content looks like the whole.
        unix_time: the time now, in seconds since 1970.

    Raises:
        FileError: the files cannot be used at the start.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], Content],
        *,
        settle: bool = False,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._read = read
        self._settle = settle
        self._unix_time = unix_time
        self._unsettled: tuple[_Stamp, float] | None = (
            None  # the state of the files, and when it was first seen
        )
        self._lock = threading.Lock()  # held while looking
        self._stamp = self._now()
        self._content = read()

    @property
    def content(self) -> Content:
        """The good content of the last look."""
        return self._content

    def watch(self, seconds: float = LOOK_SECONDS) -> Self:
        """Look at the files from now on in a thread, which ends when nobody uses this object any more."""
        threading.Thread(
            target=_watch, args=(weakref.ref(self), seconds), name="watched-files", daemon=True
        ).start()
        return self

    def look(self) -> Content:
        """Look at the files now, and return the newest good content."""
        with self._lock:
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
            _log.error("%s has changed, but cannot be used: %s", names, error)
        else:
            if self._now() != stamp:
                return  # it is being written; the next check reads all of it
            self._content = content
            _log.info("%s was read again", names)
        self._stamp = stamp

    def _has_settled(self, stamp: _Stamp) -> bool:
        """Whether the files have settled.

        If their own times are old, they have. Otherwise, or if the clock was set back, the time counts for
        which they have looked the same.
        """
        wanted = SETTLED_SECONDS if all(file is not None and file[1] for file in stamp) else EMPTY_SECONDS
        if self._unix_time() - max(map(_changed_at, self._paths)) >= wanted:
            return True
        now = time.monotonic()
        if self._unsettled is None or self._unsettled[0] != stamp:
            self._unsettled = (stamp, now)
        return now - self._unsettled[1] >= wanted

    def _now(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _watch(watched: weakref.ref[Reread[Any]], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        files = watched()
        if files is None:
            return
        try:
            files.look()
        except Exception:  # the thread must go on
            _log.exception("unexpected error while looking at files")
        del files


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _changed_at(path: Path) -> float:
    """Unix time of the last write; for a missing file, of the last change of its folder."""
    for place in (path, path.parent):
        try:
            return place.stat().st_mtime
        except OSError:
            continue
    return 0.0
