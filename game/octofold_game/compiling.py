"""Compiles functions with numba and caches the machine code, even if numba's own folders are not writable.

numba caches machine code beside the sources or in the user's home. If it can write to neither, it refuses to
define a function. A service often has no home, and its installation belongs to another user.
"""

import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event

_log = logging.getLogger(__name__)
_SILENT_SECONDS = 2.0
"""Compilations faster than this are not announced."""
_settings = vars(numba.config)
"""numba's settings, as a dictionary because the attributes of `numba.config` have no types."""


class Notice(event.Listener):
    """A listener that logs a message if compilation takes long, because the program then seems to hang."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running = 0
        self._begun = self._spent = 0.0
        self.is_given = False

    def on_start(self, _event: object) -> None:
        """Record that a compilation starts. Functions from the cache are not compiled."""
        now = self._clock()
        if not self._running:
            self._begun = now
        self._running += 1
        if not self.is_given and self._spent + now - self._begun > _SILENT_SECONDS:
            self.is_given = True
            _log.warning("compiling takes a while, but only once: the result is kept")

    def on_end(self, _event: object) -> None:
        """Record that a compilation ends."""
        self._running -= 1
        if not self._running:
            self._spent += self._clock() - self._begun


_notice = Notice()
event.register("numba:compile", _notice)  # type: ignore[no-untyped-call]  # numba has few types


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return `numba.njit(**options)`. If numba cannot write its cache, use another folder or no cache."""

    def compiled(function: Callable[..., Any]) -> Any:
        with suppress(RuntimeError):  # numba found no folder for its cache, or there is no home
            if not _settings["CACHE_DIR"]:
                Path.home()  # raises a RuntimeError without a home, where numba would make a folder named ~
            return numba.njit(**options)(function)
        is_kept = options.get("cache", False) and _use_another_folder()
        return numba.njit(**{**options, "cache": is_kept})(function)

    return compiled


@cache
def _use_another_folder() -> bool:
    """Let numba cache machine code in a service's cache folder or a temporary one; return whether it can."""
    try:
        # systemd sets this variable to the cache folder of a service.
        above = os.environ.get("CACHE_DIRECTORY") or tempfile.gettempdir()
        folder = Path(above, f"octofold-{os.geteuid()}")
        folder.mkdir(0o700, exist_ok=True)
        found = folder.lstat()
        # numba unpickles the files of this folder, so nobody else may write to it.
        if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.geteuid():
            raise PermissionError(f"{folder} must be a folder of user {os.geteuid()} with mode 0700")
        tempfile.TemporaryFile(dir=folder).close()
        if not any(folder.iterdir()):
            _notice.is_given = True
            _log.warning("compiling takes a while, but only once: %s keeps the result", folder)
    except OSError as error:
        _notice.is_given = True
        _log.warning(
            "compiled code cannot be cached (%s), so compiling takes a while each time; set NUMBA_CACHE_DIR "
            "to a writable folder",
            error,
        )
        return False
    _settings["CACHE_DIR"] = str(folder)
    return True
