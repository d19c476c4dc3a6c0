"""A file that is young while the server is ready: a health check looks at its age.

Such a check costs no connection, no interpreter and no certificate, so it may be made every few seconds, and
it works with TLS as without.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from octofold_server.system.sockets import StartupError

TOUCH_SECONDS = 2.0
"""Between two looks whether the server is ready. A file older than several of these is nobody's any more."""

_log = logging.getLogger(__name__)


class ReadyFile:
    """Touches a file while the server is ready, on a thread of its own; a context manager.

    Several processes may share the file: what one removes, another that is ready makes again.

    Args:
        file: None for none, and then this does nothing.
        is_ready: what is asked before each touch.
    """

    def __init__(self, file: Path | None, is_ready: Callable[[], bool]) -> None:
        self._file = file
        self._is_ready = is_ready
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="ready file", daemon=True)

    def __enter__(self) -> None:
        """Begin.

        Raises:
            StartupError: the file cannot be written.
        """
        if self._file is None:
            return
        try:
            self._file.touch()
        except OSError as error:
            raise StartupError(f"cannot write the ready file {self._file}: {error.strerror}") from error
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        if self._file is not None:
            self._stopping.set()
            self._thread.join()
            self._remove()

    def _keep(self) -> None:
        assert self._file is not None
        while not self._stopping.wait(TOUCH_SECONDS):
            if not self._is_ready():
                self._remove()
                continue
            try:
                self._file.touch()
            except OSError as error:
                _log.error("cannot write the ready file %s: %s", self._file, error.strerror)

    def _remove(self) -> None:
        assert self._file is not None
        with suppress(OSError):  # somebody else removed it, or the folder
            self._file.unlink()
