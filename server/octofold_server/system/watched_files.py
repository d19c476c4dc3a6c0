"""Reads files again when they change, such as certificates that are renewed while the server runs.

At the start, an invalid file is an error. Later, it is logged, and the last valid content stays in use. A
separate thread checks the files, so that calls do not wait for a file system.
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

CHECK_SECONDS = 0.5
"""Time between two checks of watched files."""

SETTLED_SECONDS = 1.0
"""Time without changes after which files count as complete."""

EMPTY_SECONDS = 5.0
"""Time without changes after which an empty or missing file counts as complete. This is longer than
`SETTLED_SECONDS`, because a writer may need time for the first byte."""

Content = TypeVar("Content")
_Stamp = tuple[tuple[int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class FileError(OctofoldError):
    """A file is missing or invalid; the message names the file."""


class WatchedFiles(Generic[Content]):
    """The content of a group of files. All are read again when one of them changes.

    Args:
        paths: the files.
        read: reads all files and returns their content, or raises FileError.
        clock: returns the time in seconds.

    Raises:
        FileError: the files cannot be used at the start.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], Content],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._read = read
        self._clock = clock
        # The state of the files when they were last read, and at the last check.
        self._used = self._seen = self._stamp()
        self._since = clock()  # when the state `_seen` was first seen
        self._content = read()

    @property
    def content(self) -> Content:
        """The last valid content of the files."""
        return self._content

    def watch(self, seconds: float = CHECK_SECONDS) -> Self:
        """Start a thread that checks the files. It ends when this object is no longer used."""
        threading.Thread(
            target=_watch, args=(weakref.ref(self), seconds), name="watched-files", daemon=True
        ).start()
        return self

    def check(self) -> None:
        """Check the files now; only one thread may call this."""
        stamp, now = self._stamp(), self._clock()
        if stamp != self._seen:
            self._seen, self._since = stamp, now
        is_empty = any(file is None or not file[1] for file in stamp)
        if stamp == self._used or now - self._since < (EMPTY_SECONDS if is_empty else SETTLED_SECONDS):
            return
        names = ", ".join(map(str, self._paths))
        try:
            content = self._read()
        except FileError as error:
            _log.error("cannot use changed files (%s): %s; the last valid content stays in use", names, error)
        else:
            if self._stamp() != stamp:
                return  # a file changed meanwhile; a later check reads it when it is complete
            self._content = content
            _log.info("read again after a change: %s", names)
        self._used = stamp

    def _stamp(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _watch(watched: weakref.ref[WatchedFiles[Any]], seconds: float) -> None:
    while True:
        time.sleep(seconds)
        files = watched()
        if files is None:
            return
        try:
            files.check()
        except Exception:  # no error may end the thread
            _log.exception("unexpected error while checking files")
        del files


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
