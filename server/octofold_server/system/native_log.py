"""Turns the output of gRPC's C core on standard error into records of the server's log.

The C core reports failed TLS handshakes nowhere else: Python code does not see a client with a wrong
certificate. It also writes a line for each call with an unknown encoding, and for each header that is too
long to send. The log limits these lines.
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

_LINE = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ \S+?\] (?P<message>.*)")
_HANDSHAKE = re.compile(r"Handshake failed with error \w+: (?P<reason>.*)")
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}

STANDARD_ERROR = 2
MAX_LINE_BYTES = 65_536

_log = logging.getLogger(__name__)


def ensure_standard_error() -> None:
    """Open standard error if it was closed when the process was started.

    Otherwise the next file or connection would get the descriptor of standard error, and receive the log.
    """
    if sys.stderr is None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        if descriptor != STANDARD_ERROR:
            os.dup2(descriptor, STANDARD_ERROR)
            os.close(descriptor)
        sys.stderr = os.fdopen(STANDARD_ERROR, "w")


class NativeLog:
    """Redirects the standard error of native code into the log while a block runs.

    Python's own standard error, which includes the log and crash reports, is not redirected.

    Args:
        on_handshake_failed: called once for each failed TLS handshake.
    """

    def __init__(self, on_handshake_failed: Callable[[], None]) -> None:
        self._on_handshake_failed = on_handshake_failed

    def __enter__(self) -> None:
        read, write = os.pipe()
        # The stream has no buffer. If its reader had gone, Python would flush a buffer at the end of the
        # process, fail, and exit with code 120.
        unbuffered = io.FileIO(os.dup(STANDARD_ERROR), "w")
        real = io.TextIOWrapper(unbuffered, errors="backslashreplace", write_through=True)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
                handler.setStream(real)
        sys.stderr = real
        faulthandler.enable(real)
        # If the pipe is full, output is lost. If native code waited instead, it might hold the interpreter's
        # lock, which the reading thread needs.
        os.set_blocking(write, False)
        os.dup2(write, STANDARD_ERROR)
        os.close(write)
        self._thread = threading.Thread(target=self._read, args=(read,), name="native-log", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        # This closes the last descriptor of the pipe's writing end, so the reading thread ends.
        os.dup2(sys.stderr.fileno(), STANDARD_ERROR)
        self._thread.join()

    def _read(self, pipe: int) -> None:
        with open(pipe, "rb") as lines:
            while line := lines.readline(MAX_LINE_BYTES):
                self._report(line.decode(errors="replace").rstrip())

    def _report(self, line: str) -> None:
        parsed = _LINE.fullmatch(line)
        if parsed is None:
            _log.warning("%s", line)
        elif failed := _HANDSHAKE.fullmatch(parsed["message"]):
            self._on_handshake_failed()
            _log.warning("refused a client, because its TLS handshake failed: %s", failed["reason"])
        else:
            _log.log(_LEVELS[parsed["level"]], "%s", parsed["message"])
