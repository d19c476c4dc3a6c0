"""What gRPC's C core prints to standard error, as records of the server's log.

Only there does it tell of TLS handshakes that failed: no call of Python's hears of a client with the wrong
certificate, or with none. Knows nothing about TLS itself.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import IO

__all__ = ["NativeLog", "have_standard_error"]

_LINE = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ \S+?\] (?P<message>.*)")
_HANDSHAKE = re.compile(r"Handshake failed with error \w+: (?P<reason>.*)")
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}

STANDARD_ERROR = 2

_log = logging.getLogger(__name__)


def have_standard_error() -> None:
    """Make up for a standard error that was closed when the process was started.

    Its number would go to the next file or connection that is opened, and that would get our log.
    """
    if sys.stderr is None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        if descriptor != STANDARD_ERROR:
            os.dup2(descriptor, STANDARD_ERROR)
            os.close(descriptor)
        sys.stderr = os.fdopen(STANDARD_ERROR, "w")


class NativeLog:
    """A block in which the process's standard error leads into the log.

    Python's own standard error, and with it the log, goes where it went before. So does what Python writes of
    a crash. The last words of a native library may get lost in the pipe: its reader dies with the process.

    Args:
        on_handshake_failed: called once for every TLS handshake that failed.
    """

    def __init__(self, on_handshake_failed: Callable[[], None]) -> None:
        self._on_handshake_failed = on_handshake_failed
        self._thread = threading.Thread(target=self._read, name="native-log", daemon=True)
        self._pipe: IO[str] | None = None

    def __enter__(self) -> None:
        read, write = os.pipe()
        # Without a buffer: what cannot be written, as when the reader has gone, would be tried again at the
        # end of the process, and make its exit code 120.
        unbuffered = io.FileIO(os.dup(STANDARD_ERROR), "w")
        real = io.TextIOWrapper(unbuffered, errors="backslashreplace", write_through=True)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
                handler.setStream(real)
        sys.stderr = real
        faulthandler.enable(real)
        os.dup2(write, STANDARD_ERROR)
        os.close(write)
        self._pipe = os.fdopen(read, errors="replace")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        # The last descriptor that led into the pipe is replaced: its reader comes to an end.
        os.dup2(sys.stderr.fileno(), STANDARD_ERROR)
        self._thread.join()

    def _read(self) -> None:
        assert self._pipe is not None
        with self._pipe as pipe:
            for line in pipe:
                self._tell(line.rstrip())

    def _tell(self, line: str) -> None:
        parsed = _LINE.fullmatch(line)
        if parsed is None:
            _log.warning("%s", line)
        elif failed := _HANDSHAKE.fullmatch(parsed["message"]):
            self._on_handshake_failed()
            _log.warning("a client was refused: its TLS handshake failed: %s", failed["reason"])
        else:
            _log.log(_LEVELS[parsed["level"]], "%s", parsed["message"])
